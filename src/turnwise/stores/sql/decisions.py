"""Decisions: counts, sessions by their newest decision, the versions that decisions refer to, and the invocations they began.

Each query reads a bounded number of rows from an index.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from turnwise.facts.events import LIMIT
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import (
    ALL_DECISIONS,
    COUNTED,
    Decision,
    DecisionCell,
    DecisionCounts,
    DecisionFilter,
    InvocationInfo,
    Page,
    RecentSession,
    TimeCount,
    Version,
    VersionKind,
)
from turnwise.stores.sql import decision_search
from turnwise.stores.sql.ids import check_limit, cursor, decision_time, first_decision_id, read_cursor
from turnwise.stores.sql.log import session_number
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.spans import is_hidden
from turnwise.stores.sql.tables import decisions, events, insert_for, owner_of, session_params, sessions, versions
from turnwise.stores.sql.words import candidates, words_of
from turnwise.stores.sql.worker_pool import Executor

SCAN = 2_000
"""The most decisions that a page of recent sessions examines."""
BUCKETS = 48
_LAST_ID = 2**63 - 1
_STEPS = (60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400)
"""The widths of the parts of time, in seconds."""

_d, _s = decisions.c, sessions.c
_DECISION_COLUMNS = (_d.id, _d.agent, _d.method, _d.outcome, _d.confidence, _d.tenth, _d.fingerprint, _d.label)


class SqlDecisions:
    """The store's decisions, the versions that they refer to, and the invocations that they began."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def search(
        self,
        app: str,
        *,
        user: str | None = None,
        key: SessionKey | None = None,
        filter: DecisionFilter = ALL_DECISIONS,
        after: str | None = None,
        limit: int = 50,
        oldest_first: bool = False,
        brief: bool = False,
        labels: bool = False,
    ) -> Page[Decision]:
        """Returns a page of decisions that match the filter."""
        job = partial(decision_search.search, app=app, user=user, key=key, filter_=filter, after=after, limit=limit)
        return await self._executor.read(partial(job, oldest_first=oldest_first, brief=brief, labels=labels))

    async def count(self, app: str, *, user: str | None = None, filter: DecisionFilter = ALL_DECISIONS) -> DecisionCounts:
        return await self._executor.read(lambda connection: count(connection, app, user, filter))

    async def recent_sessions(
        self,
        app: str,
        *,
        user: str | None = None,
        words: str = "",
        state: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[RecentSession]:
        """Returns a page of sessions by their newest decision, the newest first."""
        return await self._executor.read(lambda connection: recent_sessions(connection, app, user, words, state, after, limit))

    async def find(self, key: SessionKey, sequence: int) -> Decision | None:
        return await self._executor.read(lambda connection: decision_search.find(connection, key, sequence))

    async def label(self, key: SessionKey, sequence: int, label: str | None, *, actor: str = "") -> None:
        now = time_text(self._issuer.now())
        await self._executor.write(lambda connection: decision_search.label(connection, key, sequence, label, actor, now))

    async def put_version(self, app: str, version: Version) -> None:
        await self._executor.write(lambda connection: put_version(connection, app, version))

    async def version(self, app: str, kind: VersionKind, version: str) -> Version | None:
        return await self._executor.read(lambda connection: find_version(connection, app, kind, version))

    async def invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[InvocationInfo]:
        """Returns a page of a user's invocations, the last changed first."""
        filter_ = InvocationFilter(app, user, key, states, since)
        return await self._executor.read(lambda connection: list_invocations(connection, filter_, after, limit))

    async def count_invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
    ) -> int:
        """Counts a user's invocations."""
        filter_ = InvocationFilter(app, user, key, states, since)
        return await self._executor.read(lambda connection: count_invocations(connection, filter_))


def count(connection: Connection, app: str, user: str | None, filter_: DecisionFilter) -> DecisionCounts:
    """Counts the newest decisions that match the filter; its words are not read.

    The filter by agent or method has an index. The other conditions apply to the newest `COUNTED` decisions.
    """
    # The ids alone are in an index; the rows are not read for them.
    one_more = _newest(app, user, filter_, COUNTED + 1).with_only_columns(_d.id).subquery()
    ids = connection.execute(select(func.count(), func.min(one_more.c.id), func.max(one_more.c.id))).one()
    examined, low, high = ids
    newest = _newest(app, user, filter_, COUNTED).subquery()
    matching = _matching(newest, filter_)
    kinds = [newest.c[name] for name in ("agent", "method", "outcome", "tenth", "label", "fingerprint")]
    rows = connection.execute(select(*kinds, func.count().label("n")).where(*matching).group_by(*kinds)).all()
    cells = tuple(
        DecisionCell(
            agent=r.agent, method=r.method, outcome=r.outcome, tenth=r.tenth, label=r.label, policy=r.fingerprint, count=r.n
        )
        for r in rows
    )
    if not examined:
        return DecisionCounts(cells=cells, times=(), seconds=0, examined=0, complete=True)
    seconds = _width(low, high)
    return DecisionCounts(
        cells=cells,
        times=_over_time(connection, newest, matching, seconds),
        seconds=seconds,
        examined=min(examined, COUNTED),
        complete=examined <= COUNTED,
    )


def _newest(app: str, user: str | None, filter_: DecisionFilter, limit: int) -> Select[Any]:
    """Returns the query for the newest decisions of the app, user, agent or method, within the filter's times."""
    query = select(*_DECISION_COLUMNS)
    if user is not None:
        # The owner is a hash of app and user. With the app beside it, SQLite would read the app's index and others' rows.
        query = query.where(_d.owner == owner_of(app, user), _d.user_id == user)
    else:
        query = query.where(_d.app == app)
        if filter_.agent is not None:
            query = query.where(_d.agent == filter_.agent)
        elif filter_.method is not None:
            query = query.where(_d.method == filter_.method)
    low = first_decision_id(filter_.since) if filter_.since else 0
    high = first_decision_id(filter_.until) if filter_.until else _LAST_ID
    return query.where(_d.id >= low, _d.id < high).order_by(_d.id.desc()).limit(limit)


def _matching(rows: FromClause, filter_: DecisionFilter) -> list[ColumnElement[bool]]:
    """Returns the filter's conditions on the newest decisions."""
    c, found = rows.c, list[ColumnElement[bool]]()
    for column, wanted in ((c.agent, filter_.agent), (c.method, filter_.method), (c.outcome, filter_.outcome)):
        if wanted is not None:
            found.append(column == wanted)
    if filter_.min_confidence is not None:
        found.append(c.confidence >= filter_.min_confidence)
    if filter_.max_confidence is not None:
        found.append(c.confidence <= filter_.max_confidence)
    if filter_.policy is not None:
        found.append(c.fingerprint == filter_.policy)
    if filter_.label is not None:
        found.append(c.label == filter_.label)
    if filter_.labelled is not None:
        found.append(c.label.is_not(None) if filter_.labelled else c.label.is_(None))
    if filter_.contradicted:
        found.append(c.label != c.agent)
    return found


def _width(low: int, high: int) -> int:
    """Returns the width of the parts of time, in seconds: the smallest step that needs at most `BUCKETS` parts."""
    seconds = (decision_time(high) - decision_time(low)).total_seconds()
    return next((step for step in _STEPS if seconds / step <= BUCKETS), _STEPS[-1])


def _over_time(
    connection: Connection, newest: FromClause, matching: list[ColumnElement[bool]], seconds: int
) -> tuple[TimeCount, ...]:
    """Counts the matching decisions in intervals of equal length."""
    width = first_decision_id(_after_epoch(seconds))
    part = (newest.c.id - newest.c.id % width).label("part")
    clarified = func.sum(case((newest.c.outcome == "clarify", 1), else_=0)).label("clarified")
    query = select(part, func.count().label("n"), clarified).where(*matching).group_by(literal_column("part"))
    rows = connection.execute(query.order_by(literal_column("part"))).all()
    return tuple(TimeCount(decision_time(row.part), row.n, int(row.clarified)) for row in rows)


def _after_epoch(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=decision_time(0).tzinfo)


def recent_sessions(
    connection: Connection,
    app: str,
    user: str | None,
    words: str,
    state: str | None,
    after: str | None,
    limit: int,
) -> Page[RecentSession]:
    """Returns sessions by their newest decision, the newest first. Examines at most SCAN decisions a page."""
    check_limit(limit)
    before = read_cursor("recent", after, int)[0] if after is not None else _LAST_ID
    wanted = words_of(words)
    if words and not wanted:
        return Page((), None)
    ids = _candidate_ids(connection, app, user, wanted, before)
    found, seen, last = list[RecentSession](), set[SessionKey](), before
    for start in range(0, len(ids), 200):
        for row in connection.execute(_rows(app, ids[start : start + 200], state, by_words=bool(wanted))):
            key = SessionKey(app, row.user_id, row.session_id)
            if len(found) == limit and key not in seen:
                return Page(tuple(found), cursor("recent", last))
            last = row.id
            if key not in seen and (user is None or row.user_id == user):
                seen.add(key)
                found.append(_recent(key, row))
    return Page(tuple(found), cursor("recent", ids[-1]) if len(ids) == SCAN else None)


def _recent(key: SessionKey, row: AnyRow) -> RecentSession:
    """Returns the session that a row holds."""
    return RecentSession(
        key=key,
        title=row.title,
        text=row.text,
        agent=row.agent,
        state=row.last_state,
        changed_at=moment(row.created_at),
    )


def _candidate_ids(connection: Connection, app: str, user: str | None, words: Any, before: int) -> list[int]:
    """Returns the ids of at most SCAN decisions before an id, newest first: of words, a user, or the app."""
    if words:
        query = candidates(connection.dialect.name, app, user, words)
    elif user is not None:
        query = select(_d.id).where(_d.owner == owner_of(app, user))
    else:
        query = select(_d.id).where(_d.app == app)
    (id_,) = query.selected_columns
    return list(connection.execute(query.where(id_ < before).order_by(id_.desc()).limit(SCAN)).scalars())


def _rows(app: str, ids: list[int], state: str | None, *, by_words: bool) -> Select[Any]:
    """Returns the query of those decisions that are the newest of their sessions; with words, of all of them."""
    other = decisions.alias()
    same = (other.c.owner == _d.owner, other.c.session == _d.session)
    newest = select(other.c.sequence).where(*same, other.c.sequence > _d.sequence).correlate(decisions).exists()
    title = select(other.c.text).where(*same).order_by(other.c.sequence).limit(1).correlate(decisions).scalar_subquery()
    states = select(other.c.state).where(*same, other.c.state.is_not(None), ~is_hidden(other)).order_by(other.c.sequence.desc())
    last_state = states.limit(1).correlate(decisions).scalar_subquery()
    joined = decisions.join(sessions, (_s.owner == _d.owner) & (_s.number == _d.session))
    query = select(
        _d.id, _s.user_id, _s.session_id, _d.text, _d.agent, _d.created_at, title.label("title"), last_state.label("last_state")
    ).select_from(joined)
    # Ids are found by their index only within an app.
    query = query.where(_d.app == app, _d.id.in_(ids)).order_by(_d.id.desc())
    if not by_words:
        query = query.where(~newest)
    return query if state is None else query.where(last_state == state)


_v = versions.c
_FIND_VERSION = select(_v.name, _v.body, _v.created_at).where(
    _v.app == bindparam("at_app"), _v.kind == bindparam("at_kind"), _v.version == bindparam("at_version")
)


@cache
def _put_version(dialect: str) -> Insert:
    return insert_for(dialect, versions).on_conflict_do_nothing()


def put_version(connection: Connection, app: str, version: Version) -> None:
    row = version._asdict() | {"app": app, "created_at": time_text(version.created_at)}
    connection.execute(_put_version(connection.dialect.name), row)


def find_version(connection: Connection, app: str, kind: VersionKind, version: str) -> Version | None:
    row = connection.execute(_FIND_VERSION, {"at_app": app, "at_kind": kind, "at_version": version}).first()
    return Version(kind, version, row.name, row.body, moment(row.created_at)) if row is not None else None


_e = events.c

_INVOCATION_COLUMNS = (_d.id, _s.user_id, _s.session_id, _d.sequence, _e.event_id, _d.invocation_id, _d.state, _d.changed_at)
_BEGUN = decisions.join(sessions, (_s.owner == _d.owner) & (_s.number == _d.session)).join(
    events, (_e.owner == _d.owner) & (_e.log == _d.session) & (_e.sequence == _d.sequence)
)
# Written out, because a partial index is used only for exactly its own condition.
_HAS_STATE = literal_column("turnwise_decisions.changed_at").is_not(None)


class InvocationFilter(NamedTuple):
    """The invocations to list; the parameters of `Decisions.invocations`."""

    app: str
    user: str
    key: SessionKey | None
    states: Sequence[str] | None
    since: datetime | None

    @property
    def is_empty(self) -> bool:
        """True when it matches nothing: the session belongs to another app or user."""
        return self.key is not None and self.key[:2] != (self.app, self.user)


class _Conditions(NamedTuple):
    """The conditions of a statement."""

    key: bool
    states: bool
    limits: bool
    since: bool


def list_invocations(connection: Connection, filter_: InvocationFilter, after: str | None, limit: int) -> Page[InvocationInfo]:
    """Returns a page of invocations, the last changed first."""
    check_limit(limit)
    values: dict[str, Any] = {"at_most": limit + 1}
    if after is not None:
        values["after_changed"], values["after_id"] = read_cursor("invocations", after, str, int)
    if filter_.is_empty:
        return Page((), None)
    rows = connection.execute(
        _invocation_page(_conditions_of(filter_), after=after is not None), values | _filter_values(filter_)
    ).all()
    found = tuple(_invocation_info(filter_.app, row) for row in rows[:limit])
    more = len(rows) > limit
    return Page(found, cursor("invocations", rows[limit - 1].changed_at, rows[limit - 1].id) if more else None)


def count_invocations(connection: Connection, filter_: InvocationFilter) -> int:
    if filter_.is_empty:
        return 0
    return int(connection.execute(_invocation_count(_conditions_of(filter_)), _filter_values(filter_)).scalar_one())


@cache
def _invocation_page(conditions: _Conditions, *, after: bool) -> Select[Any]:
    found = _filtered(select(*_INVOCATION_COLUMNS).select_from(_BEGUN), conditions)
    if after:
        found = found.where(tuple_(_d.changed_at, _d.id) < tuple_(bindparam("after_changed"), bindparam("after_id")))
    return found.order_by(_d.changed_at.desc(), _d.id.desc()).limit(bindparam("at_most"))


@cache
def _invocation_count(conditions: _Conditions) -> Select[Any]:
    return _filtered(select(func.count()).select_from(decisions), conditions)


def _filtered(found: Select[Any], conditions: _Conditions) -> Select[Any]:
    """Adds the filter's conditions to the query."""
    found = found.where(_HAS_STATE, ~is_hidden())
    found = found.where(_d.owner == bindparam("at_owner"))
    if conditions.key:
        found = found.where(_d.session == session_number)
    else:
        found = found.where(_d.app == bindparam("at_decided_app"), _d.user_id == bindparam("at_decided_user"))
    if conditions.states:
        in_states = [_d.state.in_(bindparam("states", expanding=True)), _d.state.is_(None)]
        found = found.where(or_(*in_states, *([_d.state.startswith(LIMIT)] if conditions.limits else ())))
    return found.where(_d.changed_at >= bindparam("since")) if conditions.since else found


def _conditions_of(filter_: InvocationFilter) -> _Conditions:
    states = filter_.states or ()
    return _Conditions(filter_.key is not None, filter_.states is not None, LIMIT in states, filter_.since is not None)


def _filter_values(filter_: InvocationFilter) -> dict[str, Any]:
    """Returns the filter's values for the query."""
    of_user = {"at_decided_app": filter_.app, "at_decided_user": filter_.user, "at_owner": owner_of(filter_.app, filter_.user)}
    values: dict[str, Any] = of_user if filter_.key is None else session_params(filter_.key)
    if filter_.states is not None:
        values["states"] = list(filter_.states)
    if filter_.since is not None:
        values["since"] = time_text(filter_.since)
    return values


def _invocation_info(app: str, row: AnyRow) -> InvocationInfo:
    key = SessionKey(app, row.user_id, row.session_id)
    return InvocationInfo(key, row.sequence, row.event_id, row.invocation_id, row.state, moment(row.changed_at))
