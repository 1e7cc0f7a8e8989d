"""Conversions between rows and facts, sizes of stored texts, and removals: stored work that any process can continue."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json
from sqlalchemy import BigInteger, Connection, Delete, Insert, Row, and_, bindparam, delete, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from turnwise.facts.events import NO_ACTIONS, Actions, Event
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import Head, ScopedState, Session, SessionKey
from turnwise.stores.sql.ids import new_decision_id
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.tables import app_state, insert_for, owner_of, removals, user_state

if TYPE_CHECKING:
    AnyRow = Row[*tuple[Any, ...]]
else:
    AnyRow = Row

EMPTY_HEAD = Head().model_dump_json()
TEXT_CHARACTERS = 500


def time_text(moment: datetime) -> str:
    """Returns a time as stored text: UTC, so that texts sort like times. A time without a zone counts as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def state_text(state: Mapping[str, JsonValue]) -> str:
    return to_json(state).decode()


def state_of(text: str) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", from_json(text))


def blank_session(key: SessionKey, now: datetime) -> Session:
    return Session(app=key.app, user=key.user, id=key.id, created_at=now, updated_at=now)


class HeadRow(NamedTuple):
    """The columns that opening a session reads."""

    number: int
    epoch: int
    revision: int
    last_sequence: int
    bytes: int
    created_at: str
    updated_at: str
    head: str
    state: str
    queued: int
    stop: str | None
    holder: str | None


def session_of(key: SessionKey, row: HeadRow) -> Session:
    """Returns the session of a row, with empty shared state."""
    # Without validation: the store wrote the data, and every turn pays for this call.
    return Session.model_construct(
        app=key.app,
        user=key.user,
        id=key.id,
        epoch=row.epoch,
        revision=row.revision,
        last_sequence=row.last_sequence,
        bytes=row.bytes,
        state=state_of(row.state),
        app_state={},
        user_state={},
        head=Head.model_validate_json(row.head),
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        holder=row.holder,
        queued=row.queued,
        stop=row.stop,
    )


_EVENT_COLUMNS = frozenset({"sequence", "id", "invocation_id", "author"})
_EVENT_DEFAULTS: dict[str, object] = {"branch": "", "scope": (), "attempt": 1, "partial": False, "offset": None}
_ACTION_DEFAULTS: dict[str, object] = {name: getattr(NO_ACTIONS, name) for name in Actions.model_fields}
_SELECTION_COLUMNS = ("agent", "method", "confidence", "outcome", "fingerprint")
DECISION_COLUMNS = (*_SELECTION_COLUMNS, "record")
"""The columns of a decision that hold its selection."""
_NOT_IN_CLARIFYING_LOG = set(Selection.model_fields) - {"agent", "method", "confidence", "outcome", "occasion", "verdicts"}
_NOT_IN_LOG = _NOT_IN_CLARIFYING_LOG | {"outcome", "verdicts"}
_NOT_IN_LOG_OF_MEMORY = {"text", "entity", "agent", "roles"}
_SELECTION_MARK = '"selection":{'


def event_text(event: Event) -> str:
    """Returns an event as stored: without its columns, without defaults, and without the verdicts of its selection.

    Among the verdicts, only a last one that clarifies stays: it holds the offered agents: the fold of the log needs them.
    """
    without: dict[str, Any] = dict.fromkeys(_EVENT_COLUMNS, True)
    without |= {name: True for name, default in _EVENT_DEFAULTS.items() if getattr(event, name) == default}
    actions = event.actions
    if actions is NO_ACTIONS:
        without["actions"] = True
    else:
        if actions.selection is not None:
            event = event.replace(actions=actions.replace(selection=short_selection(actions.selection)))
        dropped: dict[str, Any] = {
            name: True for name, default in _ACTION_DEFAULTS.items() if getattr(actions, name) == default
        }
        is_empty = len(dropped) == len(_ACTION_DEFAULTS) and not actions.model_extra
        if actions.selection is not None:
            dropped["selection"] = _not_in_log(actions.selection)
        if actions.remembered:
            dropped["remembered"] = {"__all__": _NOT_IN_LOG_OF_MEMORY}
        without["actions"] = True if is_empty else dropped
    return event.model_dump_json(exclude=without, exclude_none=True)


def _not_in_log(selection: Selection) -> set[str]:
    clarifies = selection.outcome == "clarify" or any(verdict.outcome == "clarify" for verdict in selection.verdicts[-1:])
    return _NOT_IN_CLARIFYING_LOG if clarifies else _NOT_IN_LOG


def short_selection(selection: Selection) -> Selection:
    """Returns what the log itself keeps of a selection."""
    last = tuple(verdict for verdict in selection.verdicts[-1:] if verdict.outcome == "clarify")
    return Selection(
        agent=selection.agent,
        method=selection.method,
        confidence=selection.confidence,
        reason="",
        outcome=selection.outcome,
        occasion=selection.occasion,
        verdicts=tuple(Verdict(selector=v.selector, outcome=v.outcome, candidates=v.candidates) for v in last),
    )


class EventRow(NamedTuple):
    """The columns of a stored event."""

    sequence: int
    event_id: str
    invocation_id: str
    author: str
    body: str

    @property
    def decides(self) -> bool:
        """True if the event may hold a selection. Quotes in texts are escaped, so that only a key can match."""
        return _SELECTION_MARK in self.body

    def event(self, record: Selection | None = None) -> Event:
        """Returns the event.

        Args:
            record: The whole selection, from the decisions; None leaves the selection without verdicts.
        """
        columns = {"sequence": self.sequence, "id": self.event_id, "invocation_id": self.invocation_id, "author": self.author}
        event = Event.model_validate_json(f"{to_json(columns).decode()[:-1]},{self.body[1:]}")
        if record is None or event.actions.selection is None:
            return event
        return event.replace(actions=event.actions.replace(selection=record))


def event_row(event: Event, sequence: int, body: str) -> dict[str, Any]:
    """Returns the row of an event."""
    return {
        "sequence": sequence,
        "event_id": event.id,
        "invocation_id": event.invocation_id,
        "author": event.author,
        "body": body,
    }


def decision_row(session: Session, event: Event, sequence: int) -> dict[str, Any]:
    """Returns the row of the decision in an event."""
    selection = event.actions.selection
    assert selection is not None
    return {
        "sequence": sequence,
        "id": new_decision_id(event.created_at),
        "app": session.app,
        "user_id": session.user,
        "invocation_id": event.invocation_id,
        "agent": selection.agent,
        "method": selection.method,
        "confidence": selection.confidence,
        "outcome": selection.outcome,
        "fingerprint": selection.fingerprint,
        "tenth": tenth_of(selection.confidence),
        "label": None,
        "created_at": time_text(event.created_at),
        # For people to read. PostgreSQL's texts cannot hold NUL.
        "text": event.text[:TEXT_CHARACTERS].replace("\0", ""),
        "record": selection.model_dump_json(exclude=set(_SELECTION_COLUMNS), exclude_defaults=True),
        "state": None,
        "changed_at": None,
        "experiment": selection.experiment,
        "arm": selection.arm,
        "shadow": None,
    }


def tenth_of(confidence: float) -> int:
    """Returns the confidence in whole tenths: 0 to 9, and 9 for 1.0. A higher confidence never has a lower tenth."""
    return min(max(int(confidence * 10), 0), 9)


def selection_of(row: AnyRow) -> Selection:
    """Returns the selection of a decision's row."""
    columns = {name: getattr(row, name) for name in _SELECTION_COLUMNS}
    record = row.record[1:]
    return Selection.model_validate_json(f"{to_json(columns).decode()[:-1]}{',' if record != '}' else ''}{record}")


def brief_selection_of(row: AnyRow) -> Selection:
    """Returns the selection of a decision's row without its record."""
    return Selection(**{name: getattr(row, name) for name in _SELECTION_COLUMNS})


def job_rows(session: Session, event: Event) -> list[dict[str, Any]]:
    """Returns the rows of the jobs that an event requests, without the session's row id."""
    requested = {"app": session.app, "agent": event.author, "event_id": event.id}
    return [
        {**requested, "kind": job.kind, "until_sequence": job.until, "body": job.model_dump_json()}
        for job in event.actions.jobs
    ]


_a, _u = app_state.c, user_state.c

_OF_USER = and_(_u.owner == bindparam("at_owner"), _u.app == bindparam("at_app"), _u.user_id == bindparam("at_user"))
_APP, _USER = "app", "user"
_READ = PreparedStatement(
    select(literal(_APP), _a.key, _a.value)
    .where(_a.app == bindparam("at_app"))
    .union_all(select(literal(_USER), _u.key, _u.value).where(_OF_USER))
)
_REMOVE_APP_KEY = delete(app_state).where(_a.app == bindparam("at_app"), _a.key == bindparam("at_key"))
_REMOVE_USER_KEY = delete(user_state).where(_OF_USER, _u.key == bindparam("at_key"))
_REMOVE_USER = delete(user_state).where(_OF_USER)


@cache
def _write_app(dialect: str) -> Insert:
    insert = insert_for(dialect, app_state)
    return insert.on_conflict_do_update(index_elements=["app", "key"], set_={"value": insert.excluded.value})


@cache
def _write_user(dialect: str) -> Insert:
    insert = insert_for(dialect, user_state)
    return insert.on_conflict_do_update(
        index_elements=["owner", "app", "user_id", "key"], set_={"value": insert.excluded.value}
    )


def read_shared(connection: Connection, session: Session) -> Session:
    """Returns the session with the current state of the app and the user."""
    at = {"at_owner": owner_of(session.app, session.user), "at_app": session.app, "at_user": session.user}
    shared: dict[str, dict[str, JsonValue]] = {_APP: {}, _USER: {}}
    for scope, key, value in _READ.rows(connection, at):
        shared[scope][key] = from_json(value)
    return session.replace_valid(app_state=shared[_APP], user_state=shared[_USER])


def write_shared(connection: Connection, app: str, user: str, delta: ScopedState) -> None:
    """Writes the shared part of a delta. None values remove their keys."""
    # In one order everywhere, so that two transactions never deadlock.
    _write_keys(connection, sorted(delta.app.items()), {"app": app}, _write_app, _REMOVE_APP_KEY)
    at_user = {"owner": owner_of(app, user), "app": app, "user_id": user}
    _write_keys(connection, sorted(delta.user.items()), at_user, _write_user, _REMOVE_USER_KEY)


def _write_keys(
    connection: Connection,
    items: Sequence[tuple[str, JsonValue]],
    at: Mapping[str, Any],
    write: Callable[[str], Insert],
    remove: Delete,
) -> None:
    """Writes the keys with a value and deletes those without, in an app's or a user's shared state."""
    written = [{**at, "key": key, "value": to_json(value).decode()} for key, value in items if value is not None]
    names = {"owner": "at_owner", "app": "at_app", "user_id": "at_user"}
    of_delete = {names[name]: value for name, value in at.items()}
    removed = [{**of_delete, "at_key": key} for key, value in items if value is None]
    if written:
        connection.execute(write(connection.dialect.name), written)
    if removed:
        connection.execute(remove, removed)


def delete_user_state(connection: Connection, app: str, user: str) -> None:
    connection.execute(_REMOVE_USER, {"at_owner": owner_of(app, user), "at_app": app, "at_user": user})


def size_of(text: str) -> int:
    """Returns the size of a text. Plain ASCII, which is usual, is not encoded."""
    return len(text) if text.isascii() else len(text.encode())


class stored_size(FunctionElement[int]):
    """The size of a column's text in SQL. `length` counts characters."""

    type = BigInteger()
    inherit_cache = True


@compiles(stored_size, "sqlite")
def _sqlite_size(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    # octet_length needs SQLite 3.43.
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(stored_size, "postgresql")
def _postgresql_size(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"


class Removal(NamedTuple):
    """A deleted session or an erased user whose rows are still stored, or a rewound session with states of hidden decisions."""

    owner: int
    session: int
    app: str
    user: str
    keeps_labels: bool = False
    """Whether the labels of decisions stay."""


def store_removals(connection: Connection, stored: Sequence[Removal]) -> None:
    """Stores removals, so that any process can continue them."""
    rows = [
        {
            "owner": each.owner,
            "session": each.session,
            "app": each.app,
            "user_id": each.user,
            "keeps_labels": each.keeps_labels,
        }
        for each in stored
    ]
    if rows:
        insert = insert_for(connection.dialect.name, removals)
        # An update waits for the step of another process that works on the removal, and stores it again if that was the last.
        same = {"keeps_labels": and_(removals.c.keeps_labels, insert.excluded.keeps_labels)}
        connection.execute(insert.on_conflict_do_update(index_elements=["owner", "session"], set_=same), rows)
