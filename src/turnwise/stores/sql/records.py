"""Records for auditors: the audit log, and legal holds. A deletion of a user's data checks the holds in its transaction."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.errors import StoreError, UserOnHold
from turnwise.facts.ids import Issuer
from turnwise.ports.decisions import Page
from turnwise.ports.records import Act, AuditEntry, Hold
from turnwise.stores.sql.app_tables import audit, holds
from turnwise.stores.sql.ids import check_limit, cursor, new_id, read_cursor
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.tables import column_params, insert_for, owner_of
from turnwise.stores.sql.worker_pool import Executor

_a = audit.c


class SqlAudit:
    """The store's audit log."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def record(self, app: str, act: Act) -> None:
        now = time_text(self._issuer.now())
        await self._executor.write(lambda connection: record(connection, app, act, now), repeatable=False)

    async def list(
        self, app: str, *, user: str | None = None, action: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[AuditEntry]:
        return await self._executor.read(lambda connection: entries(connection, app, user, action, after, limit))


def record(connection: Connection, app: str, act: Act, now: str) -> None:
    """Appends an entry in the transaction of its act."""
    record_all(connection, app, [act], now)


def record_all(connection: Connection, app: str, acts: Iterable[Act], now: str) -> None:
    """Appends entries in the transaction of their acts. The last one counts as the newest."""
    connection.execute(insert(audit).inline(), [_audit_row(app, act, now) for act in acts])


def _audit_row(app: str, act: Act, now: str) -> dict[str, Any]:
    """Returns the row of an act."""
    return {
        "owner": owner_of(app, act.user or ""),
        "id": new_id(),
        "app": app,
        "created_at": now,
        "actor": act.actor,
        "action": act.action,
        "user_id": act.user,
        "session_id": act.session,
        "details": to_json(dict(act.details)).decode(),
    }


@cache
def _audit_page(*, user: bool, action: bool) -> Select[Any]:
    """Returns the query for a page of the audit log, newest first."""
    found = select(audit).where(_a.app == bindparam("at_app"), _a.id < bindparam("before"))
    if user:
        found = found.where(_a.owner == bindparam("at_owner"), _a.user_id == bindparam("at_user"))
    if action:
        found = found.where(_a.action == bindparam("at_action"))
    return found.order_by(_a.id.desc()).limit(bindparam("at_most"))


def entries(
    connection: Connection, app: str, user: str | None, action: str | None, after: str | None, limit: int
) -> Page[AuditEntry]:
    """Returns entries as `Audit.list`."""
    check_limit(limit)
    values: dict[str, Any] = {"at_app": app, "before": 2**63 - 1, "at_most": limit + 1}
    if after is not None:
        (values["before"],) = read_cursor("audit", after, int)
    if user is not None:
        values |= {"at_owner": owner_of(app, user), "at_user": user}
    if action is not None:
        values["at_action"] = action
    rows = connection.execute(_audit_page(user=user is not None, action=action is not None), values).all()
    return Page(tuple(map(_entry, rows[:limit])), cursor("audit", rows[limit - 1].id) if len(rows) > limit else None)


def _entry(row: AnyRow) -> AuditEntry:
    """Returns the entry that a row holds."""
    return AuditEntry(
        id=row.id,
        at=moment(row.created_at),
        actor=row.actor,
        action=row.action,
        user=row.user_id,
        session=row.session_id,
        details=from_json(row.details),
    )


_h = holds.c

_HOLD_OF_USER = (_h.owner == bindparam("at_owner")) & (_h.app == bindparam("at_app")) & (_h.user_id == bindparam("at_user"))
_FIRST_HOLD = select(_h.hold_id).where(_HOLD_OF_USER).order_by(_h.created_at, _h.hold_id).limit(1)
_LIST_HOLDS = select(holds).where(_h.app == bindparam("at_app")).order_by(_h.created_at, _h.hold_id)
_LIST_HOLDS_OF_USER = select(holds).where(_HOLD_OF_USER).order_by(_h.created_at, _h.hold_id)
_REMOVE_HOLD = delete(holds).where(_h.app == bindparam("at_app"), _h.hold_id == bindparam("at_id")).returning(_h.user_id)
_LOCK_USER = select(func.pg_advisory_xact_lock(bindparam("at_owner")))


class SqlHolds:
    """The store's legal holds."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def add(self, app: str, hold: Hold) -> None:
        await self._executor.write(lambda connection: _add_hold(connection, app, hold))

    async def remove(self, app: str, id: str, *, actor: str) -> bool:
        now = time_text(self._issuer.now())
        return await self._executor.write(lambda connection: _remove_hold(connection, app, id, actor, now))

    async def list(self, app: str, *, user: str | None = None) -> Sequence[Hold]:
        return await self._executor.read(lambda connection: _list_holds(connection, app, user))


def lock_user(connection: Connection, app: str, user: str) -> None:
    """Excludes, until the end of the transaction, that a hold is added while the user's data is deleted."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK_USER, {"at_owner": owner_of(app, user)})


def check_no_hold(connection: Connection, app: str, user: str) -> None:
    """Raises UserOnHold when the user has a hold."""
    lock_user(connection, app, user)
    hold = connection.execute(_FIRST_HOLD, _hold_at(app, user)).scalar()
    if hold is not None:
        raise UserOnHold(f"Legal hold {hold!r} prevents the deletion of this user's data.", fix="An admin can remove the hold.")


@cache
def _insert_hold(dialect: str) -> ReturningInsert[Any]:
    return insert_for(dialect, holds).values(column_params(holds)).on_conflict_do_nothing().returning(_h.hold_id)


def _add_hold(connection: Connection, app: str, hold: Hold) -> None:
    """Stores a legal hold and its audit entry. A hold that exists stays as it is."""
    if any("\0" in text for text in (app, hold.id, hold.user, hold.author, hold.reason)):
        raise StoreError("A hold cannot be stored: a text holds the character NUL.", fix="Leave it out.")
    lock_user(connection, app, hold.user)
    at = time_text(hold.at)
    row = {
        "owner": owner_of(app, hold.user),
        "hold_id": hold.id,
        "app": app,
        "user_id": hold.user,
        "author": hold.author,
        "created_at": at,
        "reason": hold.reason,
    }
    if connection.execute(_insert_hold(connection.dialect.name), row).first() is not None:
        record(connection, app, Act(hold.author, "hold.added", hold.user, details={"hold": hold.id}), at)


def _remove_hold(connection: Connection, app: str, id: str, actor: str, now: str) -> bool:
    user = connection.execute(_REMOVE_HOLD, {"at_app": app, "at_id": id}).scalar()
    if user is None:
        return False
    record(connection, app, Act(actor, "hold.removed", user, details={"hold": id}), now)
    return True


def _list_holds(connection: Connection, app: str, user: str | None) -> list[Hold]:
    at = {"at_app": app} if user is None else _hold_at(app, user)
    rows = connection.execute(_LIST_HOLDS if user is None else _LIST_HOLDS_OF_USER, at)
    return [_hold(row) for row in rows]


def _hold(row: AnyRow) -> Hold:
    return Hold(id=row.hold_id, user=row.user_id, author=row.author, at=moment(row.created_at), reason=row.reason)


def _hold_at(app: str, user: str) -> dict[str, Any]:
    return {"at_owner": owner_of(app, user), "at_app": app, "at_user": user}
