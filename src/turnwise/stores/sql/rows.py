"""Conversions between rows and facts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Insert, Row, and_, bindparam, delete, select

from turnwise.facts.events import Event
from turnwise.facts.sessions import Head, ScopedState, Session, SessionKey
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.tables import APP_OWNER, insert_for, scoped_state, user_owner

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

    id: int
    epoch: int
    revision: int
    last_sequence: int
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


def with_shared(session: Session, shared: Iterable[Sequence[Any]]) -> Session:
    """Returns the session with the app's and the user's state, from rows of owner, key and value."""
    app: dict[str, JsonValue] = {}
    user: dict[str, JsonValue] = {}
    for owner, key, value in shared:
        (app if owner == APP_OWNER else user)[key] = from_json(value)
    return session.replace_valid(app_state=app, user_state=user)


def event_text(event: Event) -> str:
    # The number is a column, so that a fork renumbers without changing the text. Omitting None values saves a fifth.
    return event.model_dump_json(exclude={"sequence"}, exclude_none=True)


def event_of(sequence: int, body: str) -> Event:
    return Event.model_validate_json(f'{{"sequence":{sequence},{body[1:]}')


def event_row(event: Event, sequence: int, body: str, *, hidden: bool) -> dict[str, Any]:
    rewind = event.actions.rewind
    return {
        "sequence": sequence,
        "event_id": event.id,
        "invocation_id": event.invocation_id,
        "author": event.author,
        "hidden": hidden,
        "rewind_from": rewind.from_sequence if rewind else None,
        "body": body,
    }


def decision_row(session: Session, event: Event, sequence: int) -> dict[str, Any]:
    selection = event.actions.selection
    assert selection is not None
    return {
        "sequence": sequence,
        "app": session.app,
        "user_id": session.user,
        "invocation_id": event.invocation_id,
        "agent": selection.agent,
        "method": selection.method,
        "confidence": selection.confidence,
        "fingerprint": selection.fingerprint,
        "created_at": time_text(event.created_at),
        # For people to read. PostgreSQL's texts cannot hold NUL.
        "text": event.text[:TEXT_CHARACTERS].replace("\0", ""),
        "selection": selection.model_dump_json(),
        "state": None,
        "changed_at": None,
    }


def job_rows(session: Session, event: Event) -> list[dict[str, Any]]:
    """Returns the rows of the jobs that an event requests, without the session's row id."""
    requested = {"app": session.app, "agent": event.author, "event_id": event.id}
    return [
        {**requested, "kind": job.kind, "until_sequence": job.until, "body": job.model_dump_json()}
        for job in event.actions.jobs
    ]


_c = scoped_state.c

_READ = PreparedStatement(
    select(_c.owner, _c.key, _c.value).where(
        _c.app == bindparam("at_app"), _c.owner.in_([bindparam("at_app_owner"), bindparam("at_user_owner")])
    )
)
_REMOVE = delete(scoped_state).where(
    and_(_c.app == bindparam("at_app"), _c.owner == bindparam("at_owner"), _c.key == bindparam("at_key"))
)
_REMOVE_USER = delete(scoped_state).where(_c.app == bindparam("at_app"), _c.owner == bindparam("at_owner"))


@cache
def _write(dialect: str) -> Insert:
    insert = insert_for(dialect, scoped_state)
    return insert.on_conflict_do_update(index_elements=["app", "owner", "key"], set_={"value": insert.excluded.value})


def read_shared(connection: Connection, session: Session) -> Session:
    """Returns the session with the current state of the app and the user."""
    owners = {"at_app": session.app, "at_app_owner": APP_OWNER, "at_user_owner": user_owner(session.user)}
    return with_shared(session, _READ.rows(connection, owners))


def write_shared(connection: Connection, app: str, user: str, delta: ScopedState) -> None:
    """Writes the shared part of a delta. None values remove their keys."""
    items = [(APP_OWNER, key, value) for key, value in delta.app.items()]
    items += [(user_owner(user), key, value) for key, value in delta.user.items()]
    # In one order everywhere, so that two transactions never deadlock.
    items.sort(key=lambda item: item[:2])
    written: list[dict[str, Any]] = [
        {"app": app, "owner": owner, "key": key, "value": to_json(value).decode()}
        for owner, key, value in items
        if value is not None
    ]
    removed = [{"at_app": app, "at_owner": owner, "at_key": key} for owner, key, value in items if value is None]
    if written:
        connection.execute(_write(connection.dialect.name), written)
    if removed:
        connection.execute(_REMOVE, removed)


def delete_user_state(connection: Connection, app: str, user: str) -> None:
    connection.execute(_REMOVE_USER, {"at_app": app, "at_owner": user_owner(user)})
