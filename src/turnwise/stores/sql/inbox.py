"""The inbox: a session's messages in the order of acceptance, and the state of each."""

from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, NamedTuple

from pydantic_core import to_json
from sqlalchemy import Connection, bindparam, func, literal_column, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.content import Content
from turnwise.facts.errors import QueueFull
from turnwise.facts.ids import Issuer
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import InboxLengths, Receipt
from turnwise.stores.sql.ids import new_session_number
from turnwise.stores.sql.log import AdvancedRow, events_between, session_missing, session_number, stale
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import EMPTY_HEAD, EventRow, time_text
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
from turnwise.stores.sql.worker_pool import Executor

_s, _m = sessions.c, messages.c

# Written out, because a partial index is used only for exactly its own condition.
_IS_QUEUED = literal_column("turnwise_messages.state") == literal_column("'queued'")


class SqlInbox:
    """The store's inboxes."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def accept(
        self, key: SessionKey, message: Message, *, create: bool, limit: int, revision: int | None = None
    ) -> Receipt:
        now = time_text(self._issuer.now())
        job = partial(accept, key=key, message=message, now=now, create=create, limit=limit, revision=revision)
        return await self._executor.write(job)

    async def receipt(self, key: SessionKey, message_id: str) -> Receipt | None:
        return await self._executor.read(lambda connection: receipt(connection, key, message_id))

    async def queued(self, key: SessionKey) -> Message | None:
        return await self._executor.read(lambda connection: oldest(connection, key))

    async def refuse(self, key: SessionKey, message_id: str, problem: str) -> None:
        await self._executor.write(lambda connection: refuse(connection, key, message_id, problem))

    async def lengths(self, app: str) -> InboxLengths:
        return await self._executor.read(lambda connection: lengths(connection, app))


@dataclass(frozen=True, slots=True)
class LockedSession:
    """A session's row, locked until the transaction ends."""

    owner: int
    number: int
    epoch: int
    revision: int
    created_at: str
    queued: int
    lease_holder: str | None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message's row."""

    session: int
    sequence: int | None
    state: Any
    invocation_id: str | None
    problem: str
    position: int
    body: str


_LOCK = PreparedStatement(select(*(_s[field.name] for field in fields(LockedSession))).where(is_session()).with_for_update())
_IS_ROW = (_s.owner == bindparam("at_owner"), _s.number == bindparam("at_session"))
_COUNT = PreparedStatement(
    update(sessions)
    .where(*_IS_ROW)
    .values(queued=_s.queued + bindparam("more"), accepted=_s.accepted + bindparam("newer"))
    .returning(_s.accepted)
)
_ENQUEUE = PreparedStatement(
    update(sessions)
    .where(is_session(), _s.queued < bindparam("limit"))
    .values(queued=_s.queued + 1, accepted=_s.accepted + 1)
    .returning(_s.owner, _s.number, _s.queued, _s.accepted)
)
_IS_OF_OWNER = _m.owner == bindparam("at_owner")
_MESSAGE = select(*(_m[field.name] for field in fields(MessageRow))).where(
    _IS_OF_OWNER, _m.message_id == bindparam("at_message")
)
_OF_SESSION = PreparedStatement(_MESSAGE.where(_m.session == session_number))
_OF_ROW = PreparedStatement(_MESSAGE.where(_m.session == bindparam("at_session")))
_OLDEST = select(_m.message_id, _m.body).where(_IS_OF_OWNER, _IS_QUEUED).order_by(_m.position).limit(1)
_OLDEST_OF_SESSION = PreparedStatement(_OLDEST.where(_m.session == session_number))
_OLDEST_OF_ROW = PreparedStatement(_OLDEST.where(_m.session == bindparam("at_session")))
# The first condition is exactly that of a partial index; the second one alone would scan the whole table.
LENGTHS = select(func.coalesce(func.sum(_s.queued), 0), func.count(), func.coalesce(func.max(_s.queued), 0)).where(
    _s.app == bindparam("at_app"),
    or_(_s.lease_holder.is_not(None), _s.queued > literal_column("0")),
    _s.queued > literal_column("0"),
)


def lock_session(connection: Connection, key: SessionKey) -> LockedSession | None:
    """Locks the session's row until the transaction ends and returns its queue and lease columns. Every change of an inbox
    locks the row first.
    """
    row = _LOCK.row(connection, session_params(key))
    return LockedSession(*row) if row else None


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
    if revision is None and (receipt_ := _accept_at_once(connection, key, message, now, limit)) is not None:
        return receipt_
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


def _accept_at_once(connection: Connection, key: SessionKey, message: Message, now: str, limit: int) -> Receipt | None:
    """Stores a new message in two statements, for the usual case.

    Returns None if the session is missing or full, or the message is known: then `accept` goes the longer way.
    """
    row = _ENQUEUE.row(connection, session_params(key) | {"limit": limit})
    if row is None:
        return None
    owner, session, queued, position = row
    if _insert(connection, message_row(owner, session, position, message, now)):
        return Receipt(message, "queued", None, repeated=False, number=position, after_others=queued > 1)
    # The message is there already: the count is taken back. The row is still locked, so no other transaction saw it.
    _COUNT.row(connection, {"at_owner": owner, "at_session": session, "more": -1, "newer": -1})
    return None


def check_revision(key: SessionKey, session: LockedSession, revision: int | None) -> None:
    """Raises StaleWriter unless the locked session has this revision and an empty inbox. None means any session."""
    # A queued message is a change that was accepted already, although it does not raise the revision yet.
    if revision is not None and (session.revision != revision or session.queued):
        raise stale(key)


def enqueue(connection: Connection, session: LockedSession, message: Message, now: str, *, limit: int) -> int:
    """Appends a new message to a locked inbox and returns its number. QueueFull when the inbox has reached its limit."""
    if session.queued >= limit:
        raise QueueFull(
            f"{session.queued} messages wait in this session already, the limit is {limit}; this one was not accepted.",
            fix="Send it again later, or raise limits.queue.",
        )
    # The number of queued messages is in the session's row, where `begin` reads it without another query.
    counted = _COUNT.row(connection, _at(session) | {"more": +1, "newer": +1})
    assert counted is not None
    position = int(counted[0])
    _insert(connection, message_row(session.owner, session.number, position, message, now))
    return position


def _insert(connection: Connection, row: dict[str, Any]) -> bool:
    """Stores a queued message. Returns False if the session has one with its id."""
    return insert_message(connection.dialect.name).row(connection, row | {"state": "queued"}) is not None


@cache
def insert_message(dialect: str) -> PreparedStatement:
    """Returns the statement that stores a message; without a row if the session has one with its id."""
    inserted = insert_for(dialect, messages).values(column_params(messages))
    unique = ["owner", "session", "message_id"]
    return PreparedStatement(inserted.on_conflict_do_nothing(index_elements=unique).returning(_m.position))


def _at(session: LockedSession | AdvancedRow) -> dict[str, Any]:
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


def find_message(connection: Connection, session: LockedSession, message_id: str) -> MessageRow | None:
    row = _OF_ROW.row(connection, _at(session) | {"at_message": message_id})
    return MessageRow(*row) if row else None


def receipt_of(connection: Connection, owner: int, message_id: str, row: MessageRow) -> Receipt:
    """Returns the receipt of a message's row. The content of a started message is read from its event."""
    message = _stored_message(connection, owner, message_id, row)
    return Receipt(message, row.state, row.invocation_id, repeated=True, problem=row.problem, number=row.position)


def _stored_message(connection: Connection, owner: int, message_id: str, row: MessageRow) -> Message:
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
    row = _OF_SESSION.row(connection, at | {"at_message": message_id})
    return receipt_of(connection, at["at_owner"], message_id, MessageRow(*row)) if row else None


def oldest(connection: Connection, key: SessionKey) -> Message | None:
    row = _OLDEST_OF_SESSION.row(connection, session_params(key))
    return Message.model_validate_json(row[1]) if row else None


def oldest_id(connection: Connection, session: LockedSession) -> str | None:
    row = _OLDEST_OF_ROW.row(connection, _at(session))
    return row[0] if row else None


@cache
def _dequeue(state: str, *, oldest: bool = False) -> PreparedStatement:
    """Returns the statement that takes a message out of the queue, as refused or as started; with `oldest`, the oldest."""
    dequeued = update(messages).where(
        _IS_OF_OWNER, _m.session == bindparam("at_session"), _m.message_id == bindparam("at_message"), _IS_QUEUED
    )
    if oldest:
        first = select(_m.message_id).where(_IS_OF_OWNER, _IS_QUEUED, _m.session == bindparam("at_session"))
        dequeued = dequeued.where(_m.message_id == first.order_by(_m.position).limit(1).correlate(None).scalar_subquery())
    values = {"invocation_id": "invocation", "sequence": "number", "body": "text"} if state == "started" else {"problem": "why"}
    named: dict[str, Any] = {column: bindparam(name) for column, name in values.items()}
    return PreparedStatement(dequeued.values(state=state, **named).returning(_m.message_id))


def start_queued(connection: Connection, session: AdvancedRow, message: Message, started: Started) -> None:
    """Takes a queued message out of a locked inbox and stores its current form: guardrails may have rewritten it."""
    _take_out(connection, "started", session, _started_values(message, started))


def start_oldest(connection: Connection, session: AdvancedRow, message: Message, started: Started) -> bool:
    """Starts the message if it is the oldest of the inbox; returns False otherwise. The session's count is already lowered."""
    values = _at(session) | _started_values(message, started)
    return _dequeue("started", oldest=True).row(connection, values) is not None


def _started_values(message: Message, started: Started) -> dict[str, Any]:
    values = {"invocation": started.invocation_id, "number": started.sequence, "text": _message_text(message, started)}
    return values | {"at_message": message.id}


def _take_out(connection: Connection, state: str, session: LockedSession | AdvancedRow, values: dict[str, Any]) -> None:
    if _dequeue(state).row(connection, _at(session) | values) is not None:
        _COUNT.row(connection, _at(session) | {"more": -1, "newer": 0})


def refuse(connection: Connection, key: SessionKey, message_id: str, why: str) -> None:
    session = lock_session(connection, key)
    if session is None:
        return
    _take_out(connection, "refused", session, {"at_message": message_id, "why": why})


def lengths(connection: Connection, app: str) -> InboxLengths:
    messages_, sessions_, longest = connection.execute(LENGTHS, {"at_app": app}).one()
    return InboxLengths(int(messages_), sessions_, longest)
