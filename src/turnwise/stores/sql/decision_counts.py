"""Counts of decisions, and sessions by their newest decision. Each reads a bounded number of rows from an index."""

from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, case, func, literal_column, select

from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import (
    ALL_DECISIONS,
    COUNTED,
    Decision,
    DecisionCell,
    DecisionCounts,
    DecisionFilter,
    Page,
    RecentSession,
    TimeCount,
)
from turnwise.stores.sql import decision_search
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.hidden_states import is_hidden
from turnwise.stores.sql.ids import decision_time, first_decision_id
from turnwise.stores.sql.rows import AnyRow, moment
from turnwise.stores.sql.tables import decisions, owner_of, sessions
from turnwise.stores.sql.words import candidates, words_of
from turnwise.stores.sql.worker_pool import Executor

SCAN = 2_000
"""The most decisions that a page of recent sessions examines."""
BUCKETS = 48
_LAST_ID = 2**63 - 1
_STEPS = (60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400)
"""The widths of the parts of time, in seconds."""

_d, _s = decisions.c, sessions.c
_COLUMNS = (_d.id, _d.agent, _d.method, _d.outcome, _d.confidence, _d.tenth, _d.fingerprint, _d.label)


class DecisionQueries:
    """The search of a store's decisions, their counts, and its recent sessions."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

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
    ) -> Page[Decision]:
        """Returns a page of decisions that match the filter."""
        job = partial(decision_search.search, app=app, user=user, key=key, filter_=filter, after=after, limit=limit)
        return await self._executor.read(partial(job, oldest_first=oldest_first, brief=brief))

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
    query = select(*_COLUMNS)
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
