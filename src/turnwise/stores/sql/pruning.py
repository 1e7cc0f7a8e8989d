"""Prunes what the rules of retention no longer keep. Decides on read connections; each write checks again and is short."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)

from turnwise.facts.memory import ENTRIES
from turnwise.facts.sessions import SessionKey
from turnwise.ports.records import Act
from turnwise.ports.retention import AgeRule, Pruned, Retention, RetentionRules, SessionRule
from turnwise.stores.sql.app_tables import holds
from turnwise.stores.sql.memory_rows import memories, memory_users
from turnwise.stores.sql.memory_writes import forget_ids
from turnwise.stores.sql.records import lock_user, record
from turnwise.stores.sql.rows import AnyRow, Removal, store_removals, time_text
from turnwise.stores.sql.tables import decisions, is_leased, messages, owner_of, pushes, sessions
from turnwise.stores.sql.worker_pool import Executor

STEP_ROWS = 500
"""The number of rows that one transaction changes at most."""
USERS = 50
"""The number of users in one step."""
SESSIONS = 100
"""The number of sessions that one transaction hides at most."""
ACTOR = "retention"
MEGABYTE = 1024 * 1024
EMPTY_RECORD = "{}"

MEMORIES = 50
"""The number of entries of a memory that one transaction deletes, with those that they replace."""

_s, _d, _m, _p, _h = sessions.c, decisions.c, messages.c, pushes.c, holds.c
_e, _u = memories.c, memory_users.c

_USERS = (
    select(_s.user_id)
    .where(_s.app == bindparam("at_app"), _s.user_id > bindparam("after"))
    .group_by(_s.user_id)
    .order_by(_s.user_id)
    .limit(bindparam("at_most"))
)
_FIRST_USERS = (
    select(_s.user_id)
    .where(_s.app == bindparam("at_app"))
    .group_by(_s.user_id)
    .order_by(_s.user_id)
    .limit(bindparam("at_most"))
)
_MEMORY_USERS = (
    select(_u.user_id)
    .where(_u.app == bindparam("at_app"), _u.user_id > bindparam("after"))
    .order_by(_u.user_id)
    .limit(bindparam("at_most"))
)
_OF_USER = and_(_s.owner == bindparam("at_owner"), _s.app == bindparam("at_app"), _s.user_id == bindparam("at_user"))
_SESSIONS = (
    select(_s.number, _s.session_id, _s.updated_at, _s.bytes, _s.revision, _s.queued, is_leased().label("leased"))
    .where(_OF_USER)
    .order_by(_s.updated_at.desc(), _s.number)
)
_IS_HELD = select(_h.hold_id).where(
    _h.owner == bindparam("at_owner"), _h.app == bindparam("at_app"), _h.user_id == bindparam("at_user")
)
_IDLE = select(_s.number, _s.session_id, _s.revision, _s.head).where(
    _OF_USER, _s.number.in_(bindparam("ids", expanding=True)), _s.queued == 0, ~is_leased()
)
_HIDE = delete(sessions).where(_s.owner == bindparam("at_owner"), _s.number.in_(bindparam("ids", expanding=True)))


class UserPlan(NamedTuple):
    """The data of a user to prune."""

    app: str
    user: str
    rules: RetentionRules
    expired: tuple[AnyRow, ...]
    """Sessions to delete."""
    idle: tuple[AnyRow, ...]
    """Other sessions that are not in use."""

    @property
    def at(self) -> dict[str, Any]:
        """The user as parameters."""
        return {"at_owner": owner_of(self.app, self.user), "at_app": self.app, "at_user": self.user}


class Pruner:
    """Prunes the data of an app. `remove` deletes the rows of a hidden session."""

    def __init__(self, executor: Executor, remove: Callable[[Removal], Awaitable[None]]) -> None:
        self._executor, self._remove = executor, remove

    async def step(self, app: str, retention: Retention, now: datetime, after: str | None, *, dry_run: bool) -> Pruned:
        """Prunes the data of the next users."""
        counts: Counter[str] = Counter()
        gone: list[SessionKey] = []
        revisions: set[int] = set()
        users = await self._executor.read(lambda connection: users_after(connection, app, after))
        for user in users:
            read = partial(plan_user, app=app, user=user, retention=retention, now=now)
            plan = await self._executor.read(read)
            if plan is not None:
                gone += await self._prune_sessions(plan, now, dry_run=dry_run)
                for kind in KINDS:
                    counts[kind] += await self._prune_kind(plan, kind, now, dry_run=dry_run)
                counts["memories"] += await self._prune_memories(plan, now, dry_run=dry_run)
            if retention.definitions.versions is not None:
                revisions |= await self._executor.read(partial(named_revisions, app=app, user=user))
        counts["sessions"] = len(gone)
        return Pruned(dict(counts), gone, revisions, users[-1] if len(users) == USERS else None)

    async def _prune_sessions(self, plan: UserPlan, now: datetime, *, dry_run: bool) -> list[SessionKey]:
        """Hides and deletes the user's expired sessions, and returns their keys."""
        gone: list[SessionKey] = []
        run = self._executor.read if dry_run else self._executor.write
        for start in range(0, len(plan.expired), SESSIONS):
            rows = plan.expired[start : start + SESSIONS]
            job = partial(hide_expired, plan=plan, rows=rows, now=time_text(now), dry_run=dry_run)
            for key, removal in await run(job):
                gone.append(key)
                if not dry_run:
                    await self._remove(removal)
        return gone

    async def _prune_kind(self, plan: UserPlan, kind: str, now: datetime, *, dry_run: bool) -> int:
        """Deletes old rows of one kind in the user's idle sessions, and returns their number."""
        pruned = 0
        for start in range(0, len(plan.idle), SESSIONS):
            read_idle = partial(still_idle, plan=plan, rows=plan.idle[start : start + SESSIONS])
            numbers = [row.number for row in await self._executor.read(read_idle)]
            read = partial(old_rows, plan=plan, name=kind, numbers=numbers, now=now)
            while rows := await self._executor.read(read):
                if dry_run:
                    pruned += len(rows)
                    break
                written = await self._executor.write(partial(prune_rows, plan=plan, name=kind, rows=rows))
                pruned += written
                if not written or len(rows) < STEP_ROWS:
                    break
        return pruned

    async def _prune_memories(self, plan: UserPlan, now: datetime, *, dry_run: bool) -> int:
        """Deletes the user's entries that retention no longer keeps, and returns their number."""
        ids = await self._executor.read(lambda connection: old_memories(connection, plan, now))
        if dry_run:
            return len(ids)
        pruned = 0
        for start in range(0, len(ids), MEMORIES):
            some = ids[start : start + MEMORIES]
            pruned += await self._executor.write(partial(prune_memories, plan=plan, ids=some))
        return pruned


def users_after(connection: Connection, app: str, after: str | None) -> list[str]:
    """Returns the next users of an app, by name."""
    at = {"at_app": app, "after": after or "", "at_most": USERS}
    with_sessions = connection.execute(_FIRST_USERS if after is None else _USERS, at).scalars().all()
    with_memory = connection.execute(_MEMORY_USERS, at).scalars().all()
    return sorted({*with_sessions, *with_memory})[:USERS]


def plan_user(connection: Connection, app: str, user: str, retention: Retention, now: datetime) -> UserPlan | None:
    """Returns what to prune of a user; None when the user is on hold."""
    at = {"at_owner": owner_of(app, user), "at_app": app, "at_user": user}
    if connection.execute(_IS_HELD, at).first() is not None:
        return None
    rules = retention.of(user)
    rows = connection.execute(_SESSIONS, at).all()
    expired = {row.number for row in _expired(rows, rules.sessions, now)}
    idle = [row for row in rows if row.queued == 0 and not row.leased]
    return UserPlan(
        app,
        user,
        rules,
        tuple(row for row in idle if row.number in expired),
        tuple(row for row in idle if row.number not in expired),
    )


def named_revisions(connection: Connection, app: str, user: str) -> set[int]:
    """Returns the revisions of definitions that the user's decisions name, as far as their records are kept."""
    at = {"at_owner": owner_of(app, user), "at_app": app, "at_user": user}
    return {int(revision) for revision in connection.execute(_revisions(connection.dialect.name), at).scalars() if revision}


@cache
def _revisions(dialect: str) -> Select[Any]:
    """Returns the query for the revisions of definitions that a user's decisions name."""
    if dialect == "postgresql":
        # PostgreSQL reads no JSON with an escaped NUL. Inside a text, the quotation marks of the key would be escaped.
        revision: ColumnElement[Any] = func.substring(_d.record, '"revision":([0-9]+)')
    else:
        revision = func.json_extract(_d.record, "$.revision")
    of_user = and_(_d.owner == bindparam("at_owner"), _d.app == bindparam("at_app"), _d.user_id == bindparam("at_user"))
    return select(revision).distinct().where(of_user, _d.record != EMPTY_RECORD)


def _expired(rows: Sequence[AnyRow], rule: SessionRule, now: datetime) -> Iterable[AnyRow]:
    """Yields the sessions that the rule does not keep. `rows` are all of a user, the last updated first."""
    oldest = _oldest(rule, now)
    total = 0
    for place, row in enumerate(rows):
        total += row.bytes
        if (
            (oldest is not None and row.updated_at < oldest)
            or (rule.most is not None and place >= rule.most)
            or (rule.megabytes is not None and total > rule.megabytes * MEGABYTE)
        ):
            yield row


def _oldest(rule: AgeRule, now: datetime) -> str | None:
    return None if rule.days is None else time_text(now - timedelta(days=rule.days))


def hide_expired(
    connection: Connection, plan: UserPlan, rows: Sequence[AnyRow], now: str, *, dry_run: bool = False
) -> list[tuple[SessionKey, Removal]]:
    """Deletes the sessions' own rows, unless they changed or are in use since. Their other rows are removed afterwards."""
    if not dry_run:
        lock_user(connection, plan.app, plan.user)
    chosen = still_idle(connection, plan, rows)
    if chosen and not dry_run:
        connection.execute(_HIDE, {"at_owner": plan.at["at_owner"], "ids": [row.number for row in chosen]})
        record(connection, plan.app, Act(ACTOR, "sessions.pruned", plan.user, details={"sessions": len(chosen)}), now)
    hidden = [
        (
            SessionKey(plan.app, plan.user, row.session_id),
            Removal(plan.at["at_owner"], row.number, plan.app, plan.user, keeps_labels=True),
        )
        for row in chosen
    ]
    if not dry_run:
        store_removals(connection, [removal for _, removal in hidden])
    return hidden


def still_idle(connection: Connection, plan: UserPlan, rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Returns those of the sessions that are unchanged, and in which nothing is queued, running or waiting."""
    if connection.execute(_IS_HELD, plan.at).first() is not None:
        return []
    revisions = {row.number: row.revision for row in rows}
    found = connection.execute(_IDLE, {**plan.at, "ids": list(revisions)}).all()
    return [row for row in found if row.revision == revisions[row.number] and not from_json(row.head)["invocations"]]


class _Kind(NamedTuple):
    """A kind of rows of a session that is pruned by age."""

    name: str
    table: Table
    time: str
    condition: ColumnElement[bool]
    """Which rows may be pruned."""
    changes: dict[str, Any] | None
    """The new values; None deletes the row."""


_KINDS = (
    _Kind(
        "decisions",
        decisions,
        "created_at",
        or_(_d.text != "", _d.record != EMPTY_RECORD, _d.shadow.is_not(None)),
        {"text": "", "record": EMPTY_RECORD, "shadow": None},
    ),
    _Kind("invocations", decisions, "changed_at", _d.changed_at.is_not(None), {"state": None, "changed_at": None}),
    _Kind("inbox", messages, "accepted_at", _m.state != "queued", None),
    _Kind("pushes", pushes, "created_at", _p.state == "closed", None),
)
KINDS = tuple(kind.name for kind in _KINDS)


def old_rows(connection: Connection, plan: UserPlan, name: str, numbers: Sequence[int], now: datetime) -> list[AnyRow]:
    """Returns the keys of up to `STEP_ROWS` rows of a kind in these sessions that are too old."""
    kind = next(kind for kind in _KINDS if kind.name == name)
    oldest = _oldest(getattr(plan.rules, name), now)
    if oldest is None or not numbers:
        return []
    columns = kind.table.c
    is_old = and_(
        columns.owner == plan.at["at_owner"],
        columns.session.in_(numbers),
        columns[kind.time] < oldest,
        kind.condition,
    )
    return list(connection.execute(select(*kind.table.primary_key).where(is_old).limit(STEP_ROWS)).all())


def prune_rows(connection: Connection, plan: UserPlan, name: str, rows: Sequence[AnyRow]) -> int:
    """Prunes rows of a kind, except those of sessions that are in use now. Returns their number."""
    kind = next(kind for kind in _KINDS if kind.name == name)
    lock_user(connection, plan.app, plan.user)
    numbers = {row.session for row in rows}
    idle = {row.number for row in still_idle(connection, plan, [row for row in plan.idle if row.number in numbers])}
    keys = [{f"at_{column}": value for column, value in row._mapping.items()} for row in rows if row.session in idle]
    if keys:
        is_row = and_(*(column == bindparam(f"at_{column.name}") for column in kind.table.primary_key))
        statement = delete(kind.table) if kind.changes is None else update(kind.table).values(kind.changes)
        connection.execute(statement.where(is_row), keys)
    return len(keys)


def old_memories(connection: Connection, plan: UserPlan, now: datetime) -> list[str]:
    """Returns the ids of the entries that the rule does not keep."""
    rule = plan.rules.memories
    oldest, found = _oldest(rule, now), select(_e.entry_id).where(_e.owner == plan.at["at_owner"]).order_by(_e.number.desc())
    ids: set[str] = set()
    if oldest is not None:
        ids.update(connection.execute(found.where(_e.created_at < oldest)).scalars())
    if rule.most is not None:
        ids.update(connection.execute(found.limit(ENTRIES).offset(rule.most)).scalars())
    return sorted(ids)


def prune_memories(connection: Connection, plan: UserPlan, ids: Sequence[str]) -> int:
    """Forgets these entries, unless the user was put on hold since. Returns their number, with those that they replace."""
    lock_user(connection, plan.app, plan.user)
    if connection.execute(_IS_HELD, plan.at).first() is not None:
        return 0
    return forget_ids(connection, plan.at["at_owner"], ids)
