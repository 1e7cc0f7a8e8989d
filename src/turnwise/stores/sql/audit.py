"""The audit log as rows."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Select, bindparam, insert, select

from turnwise.facts.ids import Issuer
from turnwise.ports.decisions import Page
from turnwise.ports.records import Act, AuditEntry
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.ids import new_id
from turnwise.stores.sql.record_tables import audit
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.tables import owner_of
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
    connection.execute(insert(audit).inline(), [_row(app, act, now) for act in acts])


def _row(app: str, act: Act, now: str) -> dict[str, Any]:
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
def _page(*, user: bool, action: bool) -> Select[Any]:
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
    rows = connection.execute(_page(user=user is not None, action=action is not None), values).all()
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
