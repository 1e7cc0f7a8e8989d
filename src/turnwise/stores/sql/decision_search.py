"""Finds a decision, and searches decisions, newest or oldest first.

Each filter has an index whose entries are in the order of the ids. A page reads candidates from the index with the fewest
entries, at most `SCAN` of them, and checks the other conditions on their rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, literal_column, or_, select, union_all

from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Decision, DecisionFilter, Label, Page
from turnwise.stores.sql.ids import check_limit, cursor, first_decision_id, read_cursor
from turnwise.stores.sql.labels import labels_of, place_of, put, remove_operators
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.rows import DECISION_COLUMNS, AnyRow, brief_selection_of, moment, selection_of, tenth_of
from turnwise.stores.sql.spans import all_of
from turnwise.stores.sql.tables import decisions, owner_of, sessions, versions
from turnwise.stores.sql.words import candidates, has_words, rare_ids, words_of

SCAN = 2_000
"""The most rows that one page examines."""
CHUNK = 200
"""Rows are examined in chunks of this size, until the page is full."""
_LAST_ID = 2**63 - 1

_d, _s, _v = decisions.c, sessions.c, versions.c
# Written out, because a partial index is used only for exactly its own condition.
_NOT_CHOSEN: ColumnElement[bool] = literal_column("turnwise_decisions.outcome <> 'chosen'")
_HAS_LABEL: ColumnElement[bool] = literal_column("turnwise_decisions.label IS NOT NULL")
OF_APP, OF_SESSION = "decisions", "decisions of a session"
"""The kinds of cursors: the decisions of a session are paged by sequence number."""
_OLDEST_FIRST = ", oldest first"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The decisions of a search."""

    app: str
    user: str | None
    filter: DecisionFilter
    words: Sequence[str]
    fingerprints: Sequence[str]
    """The fingerprints of the wanted policy."""
    dialect: str
    oldest_first: bool
    brief: bool = False
    """Whether the records are left out."""
    labels: bool = False
    """Whether the labels are read, too."""

    def kind(self, of: str) -> str:
        """Returns the kind of the cursors of this order."""
        return of + _OLDEST_FIRST if self.oldest_first else of

    @property
    def start(self) -> int:
        """The place before the first one, in this order."""
        return -1 if self.oldest_first else _LAST_ID

    def span(self, last: int, low: int, high: int) -> tuple[int, int]:
        """Returns the first and the last place between both, that come after `last` in this order.

        One bound on each side: of two, a database may take the wrong one for its way through the index.
        """
        return (max(low, min(last + 1, _LAST_ID)), high) if self.oldest_first else (low, min(high, last - 1))

    def order(self, place: ColumnElement[Any]) -> ColumnElement[Any]:
        """Returns the order by this column."""
        return place.asc() if self.oldest_first else place.desc()

    @property
    def low(self) -> int:
        """The lowest id."""
        return first_decision_id(self.filter.since) if self.filter.since else 0

    @property
    def high(self) -> int:
        """The id above the highest one."""
        return first_decision_id(self.filter.until) if self.filter.until else _LAST_ID


class Source(NamedTuple):
    """An index that has the ids of candidates in order."""

    covers: frozenset[str]
    """The names of the conditions that all its candidates fulfil."""
    parts: Sequence[Select[Any]]
    """Queries of ids, to be merged."""


class Found(NamedTuple):
    """Candidates in the order of the search."""

    places: list[int]
    """Ids, or sequence numbers within a session."""
    complete: bool
    """Whether there are no more."""


def search(
    connection: Connection,
    app: str,
    user: str | None,
    key: SessionKey | None,
    filter_: DecisionFilter,
    after: str | None,
    limit: int,
    *,
    oldest_first: bool = False,
    brief: bool = False,
    labels: bool = False,
) -> Page[Decision]:
    """Searches the decisions of a session, a user or an app; returns a page and its cursor."""
    check_limit(limit)
    words = words_of(filter_.words)
    if (key is not None and (key.app, key.user) != (app, user or key.user)) or (filter_.words and not words):
        return Page((), None)
    owner = key.user if key is not None else user
    fingerprints = _fingerprints(connection, app, filter_.policy) if filter_.policy is not None else ()
    wanted = Wanted(app, owner, filter_, words, fingerprints, connection.dialect.name, oldest_first, brief, labels)
    kind = wanted.kind(OF_APP if key is None else OF_SESSION)
    last = read_cursor(kind, after, int)[0] if after is not None else wanted.start
    if key is not None:
        return _of_session(connection, key, wanted, last, limit)
    return _of_app(connection, wanted, last, limit)


def _of_app(connection: Connection, wanted: Wanted, last: int, limit: int) -> Page[Decision]:
    """Searches the decisions of an app: candidates from the best index, checked against the remaining conditions."""
    conditions = conditions_of(wanted)
    source, found = _best_source(connection, wanted, last, limit, conditions)
    remaining = [condition for name, condition in conditions.items() if name not in source.covers]
    is_owner = (_d.owner == owner_of(wanted.app, wanted.user), _d.user_id == wanted.user) if wanted.user is not None else ()
    rows: list[AnyRow] = []
    for chunk in _chunks(found.places, limit):
        query = _rows(wanted).where(_d.app == wanted.app, _d.id.in_(chunk), _s.number.is_not(None), *is_owner, *remaining)
        if wanted.words and "words" not in source.covers:
            query = query.where(has_words(wanted.dialect, wanted.app, wanted.user, wanted.words))
        rows += connection.execute(query.order_by(wanted.order(_d.id)).limit(limit + 1 - len(rows))).all()
        if len(rows) > limit:
            break
    keys = [SessionKey(wanted.app, row.user_id, row.session_id) for row in rows[:limit]]
    items = _items(connection, wanted, keys, rows[:limit])
    return Page(items, _next(wanted.kind(OF_APP), [row.id for row in rows], found, limit))


def _items(connection: Connection, wanted: Wanted, keys: Iterable[SessionKey], rows: Sequence[AnyRow]) -> tuple[Decision, ...]:
    """Returns the decisions of the rows, with their labels if these are wanted."""
    found = [decision_of(key, row, brief=wanted.brief) for key, row in zip(keys, rows, strict=False)]
    if wanted.labels:
        labels = labels_of(connection, wanted.app, [row.id for row in rows if row.label is not None])
        found = [each._replace(labels=labels.get(row.id, ())) for each, row in zip(found, rows, strict=True)]
    return tuple(found)


def _best_source(
    connection: Connection, wanted: Wanted, last: int, limit: int, conditions: dict[str, ColumnElement[bool]]
) -> tuple[Source, Found]:
    """Returns the source whose candidates reach furthest; the first whose candidates are complete."""
    needed = {*conditions, *(("words",) if wanted.words else ()), *(("user",) if wanted.user is not None else ())}
    best: tuple[Source, Found] | None = None
    for source in sources(wanted):
        size = limit + 1 if needed <= source.covers else max(SCAN, limit + 1)
        ids = _rare(connection, wanted, last, size) if "words" in source.covers else None
        if ids is None:
            ids = list(connection.execute(merged(source, wanted, last, size)).scalars())
        found = Found(ids, len(ids) < size)
        if found.complete or needed <= source.covers:
            return source, found
        if best is None or (ids[-1] > best[1].places[-1]) is wanted.oldest_first:
            best = source, found
    assert best is not None
    return best


def _rare(connection: Connection, wanted: Wanted, last: int, size: int) -> list[int] | None:
    """Returns the first ids of decisions with rare words on PostgreSQL; None for other words and on SQLite."""
    if wanted.dialect == "sqlite":
        return None
    rows = connection.execute(rare_ids(wanted.words, SCAN)).all()
    if len(rows) == SCAN:
        return None
    low, high = wanted.span(last, wanted.low, wanted.high - 1)
    of_app = (row.id for row in rows if row.app == wanted.app and low <= row.id <= high)
    return sorted(of_app, reverse=not wanted.oldest_first)[:size]


def sources(wanted: Wanted) -> Iterator[Source]:
    """Yields the indexes that a search can use, each with at least the entries of all wanted decisions."""
    of_app, filter_ = _d.app == wanted.app, wanted.filter
    if filter_.label is not None or filter_.labelled or filter_.contradicted:
        labelled = [of_app, _HAS_LABEL, *(each for name, each in conditions_of(wanted).items() if name in _OF_LABEL)]
        yield Source(_OF_LABEL, (_ids(*labelled),))
    if filter_.policy is not None:
        yield Source(frozenset({"policy"}), [_ids(of_app, _d.fingerprint == each) for each in wanted.fingerprints])
    if filter_.outcome is not None and filter_.outcome != "chosen":
        yield Source(frozenset({"outcome"}), (_ids(of_app, _NOT_CHOSEN, _d.outcome == filter_.outcome),))
    if wanted.user is not None:
        yield Source(frozenset({"user"}), (_ids(_d.owner == owner_of(wanted.app, wanted.user)),))
    if filter_.agent is not None:
        yield Source(frozenset({"agent"}), (_ids(of_app, _d.agent == filter_.agent),))
    if filter_.method is not None:
        yield Source(frozenset({"method"}), (_ids(of_app, _d.method == filter_.method),))
    tenths = _tenths(filter_)
    if len(tenths) < 10:
        covered = frozenset({"confidence"}) if _is_whole(filter_) else frozenset()
        yield Source(covered, [_ids(of_app, _d.tenth == each) for each in tenths])
    if wanted.words:
        covered = frozenset({"words", "user"}) if wanted.dialect == "sqlite" else frozenset({"words"})
        yield Source(covered, (candidates(wanted.dialect, wanted.app, wanted.user, wanted.words),))
    if wanted.user is None:
        yield Source(frozenset(), (_ids(of_app),))


_OF_LABEL = frozenset({"label", "labelled", "contradicted"})


def conditions_of(wanted: Wanted) -> dict[str, ColumnElement[bool]]:
    """Returns the conditions on the columns of a decision, by name. The words are not among them."""
    filter_ = wanted.filter
    found: dict[str, ColumnElement[bool]] = {}
    if filter_.agent is not None:
        found["agent"] = _d.agent == filter_.agent
    if filter_.method is not None:
        found["method"] = _d.method == filter_.method
    if filter_.outcome is not None:
        found["outcome"] = _d.outcome == filter_.outcome
    if filter_.policy is not None:
        found["policy"] = _d.fingerprint.in_(wanted.fingerprints)
    if filter_.min_confidence is not None or filter_.max_confidence is not None:
        low, high = filter_.min_confidence, filter_.max_confidence
        found["confidence"] = and_(
            *([_d.confidence >= low] if low is not None else []), *([_d.confidence <= high] if high is not None else [])
        )
    if filter_.label is not None:
        found["label"] = _d.label == filter_.label
    if filter_.labelled is not None:
        found["labelled"] = _d.label.is_not(None) if filter_.labelled else _d.label.is_(None)
    if filter_.contradicted:
        found["contradicted"] = _d.label != _d.agent
    return found


def _tenths(filter_: DecisionFilter) -> range:
    """Returns the tenths that hold every wanted confidence."""
    low = 0 if filter_.min_confidence is None else tenth_of(filter_.min_confidence)
    return range(low, 10 if filter_.max_confidence is None else tenth_of(filter_.max_confidence) + 1)


def _is_whole(filter_: DecisionFilter) -> bool:
    """Returns whether the tenths hold only wanted confidences."""
    low, high = filter_.min_confidence, filter_.max_confidence
    return (high is None or high >= 1) and (low is None or tenth_of(low) == low * 10)


def _ids(*conditions: ColumnElement[bool]) -> Select[Any]:
    return select(_d.id).where(*conditions)


def merged(source: Source, wanted: Wanted, last: int, size: int) -> Any:
    """Returns the query of the ids of all parts that come first after `last`."""
    if not source.parts:
        return select(_d.id).where(_d.app == wanted.app, _d.id < 0)
    limited = []
    low, high = wanted.span(last, wanted.low, wanted.high - 1)
    for part in source.parts:
        (id_,) = part.selected_columns
        limited.append(part.where(id_ >= low, id_ <= high).order_by(wanted.order(id_)).limit(size))
    if len(limited) == 1:
        return limited[0]
    merged = union_all(*(select(each.subquery().c.id) for each in limited)).subquery()
    return select(merged.c.id).order_by(wanted.order(merged.c.id)).limit(size)


def _of_session(connection: Connection, key: SessionKey, wanted: Wanted, last: int, limit: int) -> Page[Decision]:
    """Returns a page of the decisions in the session's own log and in the parts that it inherited."""
    conditions = [*conditions_of(wanted).values()]
    if wanted.filter.since is not None or wanted.filter.until is not None:
        conditions.append(and_(_d.id >= wanted.low, _d.id < wanted.high))
    size = max(SCAN, limit + 1) if conditions or wanted.words else limit + 1
    logs = _logs(connection, key, wanted, last, size)
    found = Found(list(logs), len(logs) < size)
    rows: list[AnyRow] = []
    for chunk in _chunks(found.places, limit):
        places = [and_(_d.session == log, _d.sequence.in_(some)) for log, some in _by_log(chunk, logs).items()]
        query = _rows(wanted).where(_d.owner == owner_of(key.app, key.user), or_(*places), *conditions)
        if wanted.words:
            query = query.where(has_words(wanted.dialect, key.app, key.user, wanted.words))
        rows += connection.execute(query.order_by(wanted.order(_d.sequence)).limit(limit + 1 - len(rows))).all()
        if len(rows) > limit:
            break
    items = _items(connection, wanted, repeat(key), rows[:limit])
    return Page(items, _next(wanted.kind(OF_SESSION), [row.sequence for row in rows], found, limit))


def _logs(connection: Connection, key: SessionKey, wanted: Wanted, last: int, size: int) -> dict[int, int]:
    """Returns the logs of the decisions of a session that come first after `last`, by sequence number, in order."""
    known = read_spans(connection, key)
    logs: dict[int, int] = {}
    if known is None:
        return logs
    number, spans = known
    every = all_of(spans, number)
    for span in every if wanted.oldest_first else reversed(every):
        missing = size - len(logs)
        if missing <= 0:
            break
        low, high = wanted.span(last, span.first, span.last)
        query = select(_d.sequence).where(
            _d.owner == owner_of(key.app, key.user), _d.session == span.log, _d.sequence >= low, _d.sequence <= high
        )
        for place in connection.execute(query.order_by(wanted.order(_d.sequence)).limit(missing)).scalars():
            logs[place] = span.log
    return logs


def _by_log(places: Sequence[int], logs: dict[int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for place in places:
        found.setdefault(logs[place], []).append(place)
    return found


def _rows(wanted: Wanted) -> Select[Any]:
    return select(*(BRIEF_COLUMNS if wanted.brief else COLUMNS)).select_from(WITH_SESSION)


def _chunks(places: list[int], limit: int) -> Iterator[list[int]]:
    size = max(CHUNK, limit + 1)
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _next(kind: str, shown: Sequence[int], found: Found, limit: int) -> str | None:
    """Returns the cursor after the last shown decision or, without a full page, after the last candidate."""
    if len(shown) > limit:
        return cursor(kind, shown[limit - 1])
    return None if found.complete else cursor(kind, found.places[-1])


def _fingerprints(connection: Connection, app: str, policy: str) -> list[str]:
    """Returns the fingerprints of a policy: its own, and those of the stored policies of that name."""
    of_name = select(_v.version).where(_v.app == app, _v.kind == "policy", _v.name == policy).order_by(_v.version)
    return list(dict.fromkeys([policy, *connection.execute(of_name).scalars()]))


COLUMNS = (
    _d.id,
    _s.user_id,
    _s.session_id,
    _d.sequence,
    _d.invocation_id,
    _d.text,
    *(_d[name] for name in DECISION_COLUMNS),
    _d.created_at,
    _d.label,
    _d.shadow,
)
BRIEF_COLUMNS = tuple(column for column in COLUMNS if column.name not in ("record", "shadow"))
"""The columns without the record."""
WITH_SESSION = decisions.outerjoin(sessions, (_s.owner == _d.owner) & (_s.number == _d.session))
_IS_ONE = and_(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
_FIND = select(*(column for column in COLUMNS if column.table is not sessions)).where(_IS_ONE)


def find(connection: Connection, key: SessionKey, sequence: int) -> Decision | None:
    place = place_of(connection, key, sequence)
    row = connection.execute(_FIND, place).first() if place is not None else None
    return decision_of(key, row) if row is not None else None


def decision_of(key: SessionKey, row: AnyRow, *, brief: bool = False) -> Decision:
    """Returns the decision of a row; `brief` for a row of `BRIEF_COLUMNS`."""
    label = row.label or None
    if brief:
        return Decision(key, row.sequence, row.invocation_id, row.text, brief_selection_of(row), moment(row.created_at), label)
    made = selection_of(row)
    shadow = Selection.model_validate_json(row.shadow) if row.shadow is not None else None
    return Decision(key, row.sequence, row.invocation_id, row.text, made, moment(row.created_at), label, shadow)


def label(connection: Connection, key: SessionKey, sequence: int, agent: str | None, actor: str, now: str) -> None:
    """Stores an operator's label; None removes the labels of all operators."""
    if agent is None:
        remove_operators(connection, key, sequence, actor, now)
    else:
        put(connection, key, sequence, Label(agent=agent, author=actor), actor, now)
