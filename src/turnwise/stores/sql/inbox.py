"""The inbox: a session's messages in the order of acceptance, and the state of each."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Update, bindparam, func, insert, literal_column, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.errors import QueueFull
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import InboxLengths, Receipt
from turnwise.stores.sql.log import session_missing, session_row_id, stale
from turnwise.stores.sql.rows import EMPTY_HEAD, AnyRow
from turnwise.stores.sql.tables import (
    LEASE_RELEASED,
    column_params,
    insert_for,
    is_leased,
    is_session,
    lease_taken,
    messages,
    session_params,
    sessions,
)

_s, _m = sessions.c, messages.c

# Written out, because a partial index is used only for exactly its own condition.
_IS_QUEUED = literal_column("turnwise_messages.state") == literal_column("'queued'")

_LOCK = (
    select(
        _s.id,
        _s.epoch,
        _s.revision,
        _s.created_at,
        _s.queued,
        *(_s[name] for name in LEASE_RELEASED),
        is_leased().label("held"),
    )
    .where(is_session())
    .with_for_update()
)
_INSERT = insert(messages).inline()
_COUNT = update(sessions).where(_s.id == bindparam("at_row")).values(queued=_s.queued + bindparam("more"))
_MESSAGE = select(_m.state, _m.invocation_id, _m.problem, _m.body).where(_m.message_id == bindparam("at_message"))
_OF_SESSION = _MESSAGE.where(_m.session == session_row_id)
_OF_ROW = _MESSAGE.where(_m.session == bindparam("at_row"))
_OLDEST = select(_m.message_id, _m.body).where(_IS_QUEUED).order_by(_m.id).limit(1)
_OLDEST_OF_SESSION = _OLDEST.where(_m.session == session_row_id)
_OLDEST_OF_ROW = _OLDEST.where(_m.session == bindparam("at_row"))
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
def _insert_session(dialect: str, *, leased: bool) -> ReturningInsert[Any]:
    columns: dict[str, Any] = column_params(sessions, "id", "stop", *LEASE_RELEASED)
    inserted = insert_for(dialect, sessions).values(columns | (lease_taken() if leased else LEASE_RELEASED))
    return inserted.on_conflict_do_nothing(index_elements=["app", "user_id", "session_id"]).returning(_s.id)


def insert_session(connection: Connection, key: SessionKey, now: str, **columns: Any) -> int | None:
    """Stores a session with these columns; the others are empty.

    With the columns `holder` and `seconds` the session is leased to that holder.

    Returns:
        The id of its row, or None when the key is in use.
    """
    row: dict[str, Any] = {"app": key.app, "user_id": key.user, "session_id": key.id, "created_at": now, "updated_at": now}
    row |= {"epoch": 0, "revision": 1, "last_sequence": 0, "queued": 0}
    row |= {"head": EMPTY_HEAD, "state": "{}", "initial_state": "{}"} | columns
    return connection.execute(_insert_session(connection.dialect.name, leased="holder" in columns), row).scalar()


def accept(
    connection: Connection, key: SessionKey, message: Message, now: str, *, create: bool, limit: int, revision: int | None
) -> Receipt:
    session = lock_session(connection, key)
    if session is None and create and revision is None:
        insert_session(connection, key, now)
        session = lock_session(connection, key)
    if session is None:
        raise session_missing(key)
    existing = find_message(connection, session.id, message.id)
    if existing is not None:
        return receipt_of(existing)
    check_revision(key, session, revision)
    enqueue(connection, session, message, now, limit=limit)
    return Receipt(message, "queued", None, repeated=False)


def check_revision(key: SessionKey, session: AnyRow, revision: int | None) -> None:
    """Raises StaleWriter unless the locked session has this revision and an empty inbox. None means any session."""
    # A queued message is a change that was accepted already, although it does not raise the revision yet.
    if revision is not None and (session.revision != revision or session.queued):
        raise stale(key)


def enqueue(connection: Connection, session: AnyRow, message: Message, now: str, *, limit: int) -> None:
    """Appends a new message to a locked inbox. QueueFull when the inbox has reached its limit."""
    if session.queued >= limit:
        raise QueueFull(
            f"{session.queued} messages wait in this session already, the limit is {limit}; this one was not accepted.",
            fix="Send it again later, or raise limits.queue.",
        )
    connection.execute(_INSERT, message_row(session.id, message, now, "queued", None))
    change_count(connection, session.id, +1)


def change_count(connection: Connection, row_id: int, more: int) -> None:
    """Updates the number of queued messages in the session's row, where `begin` reads it without another query."""
    connection.execute(_COUNT, {"at_row": row_id, "more": more})


def message_row(row_id: int, message: Message, now: str, state: str, invocation_id: str | None) -> dict[str, Any]:
    known = {"session": row_id, "message_id": message.id, "state": state, "invocation_id": invocation_id}
    return known | {"accepted_at": now, "problem": "", "body": message.model_dump_json()}


def find_message(connection: Connection, row_id: int, message_id: str) -> AnyRow | None:
    return connection.execute(_OF_ROW, {"at_row": row_id, "at_message": message_id}).first()


def receipt_of(row: AnyRow) -> Receipt:
    message = Message.model_validate_json(row.body)
    return Receipt(message, row.state, row.invocation_id, repeated=True, problem=row.problem)


def receipt(connection: Connection, key: SessionKey, message_id: str) -> Receipt | None:
    row = connection.execute(_OF_SESSION, session_params(key) | {"at_message": message_id}).first()
    return receipt_of(row) if row else None


def oldest(connection: Connection, key: SessionKey) -> Message | None:
    row = connection.execute(_OLDEST_OF_SESSION, session_params(key)).first()
    return Message.model_validate_json(row.body) if row else None


def oldest_id(connection: Connection, row_id: int) -> str | None:
    return connection.execute(_OLDEST_OF_ROW, {"at_row": row_id}).scalar()


@cache
def _dequeue(state: str) -> Update:
    dequeued = update(messages).where(_m.session == bindparam("at_row"), _m.message_id == bindparam("at_message"), _IS_QUEUED)
    if state == "refused":
        return dequeued.values(state=state, problem=bindparam("why"))
    return dequeued.values(state=state, invocation_id=bindparam("invocation"), body=bindparam("text"))


def start_queued(connection: Connection, row_id: int, message: Message, invocation_id: str | None) -> None:
    """Takes a queued message out of a locked inbox and stores its current form: guardrails may have rewritten it."""
    values = {"at_row": row_id, "at_message": message.id, "invocation": invocation_id, "text": message.model_dump_json()}
    if connection.execute(_dequeue("started"), values).rowcount:
        change_count(connection, row_id, -1)


def refuse(connection: Connection, key: SessionKey, message_id: str, why: str) -> None:
    session = lock_session(connection, key)
    if session is None:
        return
    values = {"at_row": session.id, "at_message": message_id, "why": why}
    if connection.execute(_dequeue("refused"), values).rowcount:
        change_count(connection, session.id, -1)


def lengths(connection: Connection, app: str) -> InboxLengths:
    messages_, sessions_, longest = connection.execute(LENGTHS, {"at_app": app}).one()
    return InboxLengths(int(messages_), sessions_, longest)
