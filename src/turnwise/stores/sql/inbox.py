"""The inbox: a session's messages in the order of acceptance, and the state of each."""

from functools import cache
from typing import Any, NamedTuple

from pydantic_core import to_json
from sqlalchemy import Connection, Update, bindparam, func, insert, literal_column, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.content import Content
from turnwise.facts.errors import QueueFull
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import InboxLengths, Receipt
from turnwise.stores.sql.ids import new_session_number
from turnwise.stores.sql.log import AdvancedRow, events_between, session_missing, session_number, stale
from turnwise.stores.sql.rows import EMPTY_HEAD, AnyRow, EventRow
from turnwise.stores.sql.tables import (
    LEASE_RELEASED,
    column_params,
    insert_for,
    is_session,
    messages,
    owner_of,
    session_params,
    sessions,
)

_s, _m = sessions.c, messages.c

# Written out, because a partial index is used only for exactly its own condition.
_IS_QUEUED = literal_column("turnwise_messages.state") == literal_column("'queued'")

_LOCK = (
    select(_s.owner, _s.number, _s.epoch, _s.revision, _s.created_at, _s.queued, _s.lease_holder)
    .where(is_session())
    .with_for_update()
)
_INSERT = insert(messages).inline()
_COUNT = (
    update(sessions)
    .where(_s.owner == bindparam("at_owner"), _s.number == bindparam("at_session"))
    .values(queued=_s.queued + bindparam("more"))
)
_ENQUEUE = _COUNT.values(accepted=_s.accepted + 1).returning(_s.accepted)
_IS_OF_OWNER = _m.owner == bindparam("at_owner")
_MESSAGE = select(_m.session, _m.sequence, _m.state, _m.invocation_id, _m.problem, _m.position, _m.body).where(
    _IS_OF_OWNER, _m.message_id == bindparam("at_message")
)
_OF_SESSION = _MESSAGE.where(_m.session == session_number)
_OF_ROW = _MESSAGE.where(_m.session == bindparam("at_session"))
_OLDEST = select(_m.message_id, _m.body).where(_IS_OF_OWNER, _IS_QUEUED).order_by(_m.position).limit(1)
_OLDEST_OF_SESSION = _OLDEST.where(_m.session == session_number)
_OLDEST_OF_ROW = _OLDEST.where(_m.session == bindparam("at_session"))
# The first condition is exactly that of a partial index; the second one alone would scan the whole table.
LENGTHS = select(func.coalesce(func.sum(_s.queued), 0), func.count(), func.coalesce(func.max(_s.queued), 0)).where(
    _s.app == bindparam("at_app"),
    or_(_s.lease_holder.is_not(None), _s.queued > literal_column("0")),
    _s.queued > literal_column("0"),
)


def lock_session(connection: Connection, key: SessionKey) -> AnyRow | None:
    """Locks the session's row until the transaction ends and returns its queue and lease columns. Every change of an inbox
    does so.
    """
    return connection.execute(_LOCK, session_params(key)).first()


@cache
def _insert_session(dialect: str) -> ReturningInsert[Any]:
    inserted = insert_for(dialect, sessions).values(column_params(sessions, "stop"))
    return inserted.on_conflict_do_nothing(index_elements=["owner", "app", "user_id", "session_id"]).returning(_s.number)


def insert_session(connection: Connection, key: SessionKey, now: str, **columns: Any) -> int | None:
    """Stores a session with these columns; the others are empty.

    Returns:
        Its number, or None when the key is in use.
    """
    row: dict[str, Any] = {"owner": owner_of(key.app, key.user), "number": new_session_number()}
    row |= {"app": key.app, "user_id": key.user, "session_id": key.id, "created_at": now, "updated_at": now}
    row |= {"epoch": 0, "revision": 1, "last_sequence": 0, "bytes": 0, "queued": 0, "accepted": 0}
    row |= {"head": EMPTY_HEAD, "state": "{}", "initial_state": "{}", "spans": None, "expires_at": None}
    row |= LEASE_RELEASED | columns
    return connection.execute(_insert_session(connection.dialect.name), row).scalar()


def accept(
    connection: Connection, key: SessionKey, message: Message, now: str, *, create: bool, limit: int, revision: int | None
) -> Receipt:
    """Puts a message in the inbox and returns its receipt; a known id returns the first one.

    Raises SessionMissing, StaleWriter, QueueFull.
    """
    session = lock_session(connection, key)
    if session is None and create and revision is None:
        insert_session(connection, key, now)
        session = lock_session(connection, key)
    if session is None:
        raise session_missing(key)
    existing = find_message(connection, session, message.id)
    if existing is not None:
        return receipt_of(connection, session.owner, message.id, existing)
    check_revision(key, session, revision)
    position = enqueue(connection, session, message, now, limit=limit)
    return Receipt(message, "queued", None, repeated=False, number=position, after_others=session.queued > 0)


def check_revision(key: SessionKey, session: AnyRow, revision: int | None) -> None:
    """Raises StaleWriter unless the locked session has this revision and an empty inbox. None means any session."""
    # A queued message is a change that was accepted already, although it does not raise the revision yet.
    if revision is not None and (session.revision != revision or session.queued):
        raise stale(key)


def enqueue(connection: Connection, session: AnyRow, message: Message, now: str, *, limit: int) -> int:
    """Appends a new message to a locked inbox and returns its number. QueueFull when the inbox has reached its limit."""
    if session.queued >= limit:
        raise QueueFull(
            f"{session.queued} messages wait in this session already, the limit is {limit}; this one was not accepted.",
            fix="Send it again later, or raise limits.queue.",
        )
    # The number of queued messages is in the session's row, where `begin` reads it without another query.
    position = int(connection.execute(_ENQUEUE, _at(session) | {"more": +1}).scalar_one())
    row = message_row(session.owner, session.number, position, message, now)
    connection.execute(_INSERT, row | {"state": "queued"})
    return position


def _at(session: AnyRow | AdvancedRow) -> dict[str, Any]:
    return {"at_owner": session.owner, "at_session": session.number}


class Started(NamedTuple):
    """How a message began."""

    invocation_id: str | None
    sequence: int | None
    """The number of the event that holds the message's content; None when no event does."""


_NOT_STARTED = Started(None, None)


def message_row(
    owner: int, session: int, position: int, message: Message, now: str, started: Started = _NOT_STARTED
) -> dict[str, Any]:
    """Returns the row of a message without its state. An event's content is not stored a second time."""
    known = {"owner": owner, "session": session, "message_id": message.id, "position": position, **started._asdict()}
    return known | {"accepted_at": now, "problem": "", "body": _message_text(message, started)}


def _message_text(message: Message, started: Started) -> str:
    if started.sequence is None:
        return message.model_dump_json()
    return message.model_dump_json(exclude={"id", "content"}, exclude_defaults=True)


def find_message(connection: Connection, session: AnyRow, message_id: str) -> AnyRow | None:
    return connection.execute(_OF_ROW, _at(session) | {"at_message": message_id}).first()


def receipt_of(connection: Connection, owner: int, message_id: str, row: AnyRow) -> Receipt:
    """Returns the receipt of a message's row. The content of a started message is read from its event."""
    message = _stored_message(connection, owner, message_id, row)
    return Receipt(message, row.state, row.invocation_id, repeated=True, problem=row.problem, number=row.position)


def _stored_message(connection: Connection, owner: int, message_id: str, row: AnyRow) -> Message:
    """Returns the message of a row: from the inbox while it waits, later with the content from the log."""
    if row.sequence is None:
        return Message.model_validate_json(row.body)
    content = Content(role="user")
    at = {"at_owner": owner, "at_log": row.session, "first": row.sequence, "last": row.sequence, "at_most": 1}
    for event_row in events_between(newest=False, invocation=False).rows(connection, at):
        content = EventRow(*event_row).event().content or content
    data = {"id": message_id, "content": content.model_dump(mode="json")}
    rest = row.body[1:]
    return Message.model_validate_json(f"{to_json(data).decode()[:-1]}{',' if rest != '}' else ''}{rest}")


def receipt(connection: Connection, key: SessionKey, message_id: str) -> Receipt | None:
    at = session_params(key)
    row = connection.execute(_OF_SESSION, at | {"at_message": message_id}).first()
    return receipt_of(connection, at["at_owner"], message_id, row) if row else None


def oldest(connection: Connection, key: SessionKey) -> Message | None:
    row = connection.execute(_OLDEST_OF_SESSION, session_params(key)).first()
    return Message.model_validate_json(row.body) if row else None


def oldest_id(connection: Connection, session: AnyRow) -> str | None:
    return connection.execute(_OLDEST_OF_ROW, _at(session)).scalar()


@cache
def _dequeue(state: str) -> Update:
    """Returns the statement that takes a message out of the queue, as refused or as started."""
    dequeued = update(messages).where(
        _IS_OF_OWNER, _m.session == bindparam("at_session"), _m.message_id == bindparam("at_message"), _IS_QUEUED
    )
    if state == "refused":
        return dequeued.values(state=state, problem=bindparam("why"))
    return dequeued.values(
        state=state, invocation_id=bindparam("invocation"), sequence=bindparam("number"), body=bindparam("text")
    )


def start_queued(connection: Connection, session: AdvancedRow, message: Message, started: Started) -> None:
    """Takes a queued message out of a locked inbox and stores its current form: guardrails may have rewritten it."""
    values = {"invocation": started.invocation_id, "number": started.sequence, "text": _message_text(message, started)}
    _take_out(connection, "started", session, values | {"at_message": message.id})


def _take_out(connection: Connection, state: str, session: AnyRow | AdvancedRow, values: dict[str, Any]) -> None:
    if connection.execute(_dequeue(state), _at(session) | values).rowcount:
        connection.execute(_COUNT, _at(session) | {"more": -1})


def refuse(connection: Connection, key: SessionKey, message_id: str, why: str) -> None:
    session = lock_session(connection, key)
    if session is None:
        return
    _take_out(connection, "refused", session, {"at_message": message_id, "why": why})


def lengths(connection: Connection, app: str) -> InboxLengths:
    messages_, sessions_, longest = connection.execute(LENGTHS, {"at_app": app}).one()
    return InboxLengths(int(messages_), sessions_, longest)
