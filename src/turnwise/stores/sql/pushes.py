"""Push subscriptions as rows, each held by one living process at a time."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    not_,
    select,
    update,
)
from sqlalchemy.sql.dml import UpdateBase

from turnwise.facts.errors import StoreError
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import SessionKey
from turnwise.ports.pushes import Push, PushConfig, PushPlace
from turnwise.ports.stores import Lease
from turnwise.stores.sql import inbox
from turnwise.stores.sql.heartbeats import Heartbeats
from turnwise.stores.sql.ids import check_limit, new_id
from turnwise.stores.sql.log import session_missing, session_number
from turnwise.stores.sql.rows import AnyRow, time_text
from turnwise.stores.sql.tables import column_params, insert_for, is_session, processes, pushes, session_params, sessions
from turnwise.stores.sql.worker_pool import Executor

_p, _s = pushes.c, sessions.c

OPEN, CLOSED = "open", "closed"
UNSEEN = -1

# Written out, because a partial index is used only for exactly its own condition.
_IS_OPEN = literal_column("turnwise_pushes.state") == literal_column("'open'")
_IS_FREE = not_(exists().where(processes.c.name == _p.holder))
_OF_MESSAGE = _p.message_id == bindparam("at_message")
_OF_SESSION = and_(_p.owner == bindparam("at_owner"), _p.session == session_number)
_IS_ONE = and_(_OF_SESSION, _OF_MESSAGE, _p.push_id == bindparam("at_push"))
_IS_HELD = _p.holder == bindparam("at_holder")

_OTHERS = select(func.count()).where(_OF_SESSION, _OF_MESSAGE, _p.push_id != bindparam("at_push"))
_LAST = select(_s.last_sequence).where(is_session())
_BODY = select(_p.body).where(_IS_ONE)
_LIST = select(_p.body).where(_OF_SESSION, _OF_MESSAGE).order_by(_p.push_id)
_REMOVE = delete(pushes).where(_IS_ONE)
_OF_ROW = and_(_s.owner == _p.owner, _s.number == _p.session)
# The condition of the partial index.
_IS_CHOSEN = and_(_p.app == bindparam("at_push_app"), _IS_OPEN, _p.id.in_(bindparam("ids", expanding=True)))
_DUE = (
    select(_p.id)
    .join(sessions, _OF_ROW)
    .where(_p.app == bindparam("at_push_app"), _IS_OPEN, _IS_FREE, _s.last_sequence > _p.seen)
    # In random order, so that subscriptions that stay due do not starve the others.
    .order_by(func.random())
    .limit(bindparam("at_most"))
)
# Checked again under the lock: a holder's heartbeat may be newer than the query that chose the rows.
_CLAIM = update(pushes).where(_IS_CHOSEN, _IS_FREE).values(holder=bindparam("at_holder"))
_PLACE = (_s.app, _s.user_id, _s.session_id, _p.message_id, _p.push_id)
_CLAIMED = select(*_PLACE, _p.body, _p.told).join(sessions, _OF_ROW).where(_IS_CHOSEN, _IS_HELD)
_HELD = select(*_PLACE).join(sessions, _OF_ROW).where(_IS_HELD)
_SET_TOLD = update(pushes).where(_IS_ONE, _IS_HELD).values(told=bindparam("number"))
_RELEASED: dict[str, Any] = {"holder": None}
_RELEASE = update(pushes).where(_IS_ONE, _IS_HELD).values(**_RELEASED, seen=bindparam("number"))
_CLOSE = update(pushes).where(_IS_ONE, _IS_HELD).values(**_RELEASED, state=CLOSED)
_RELEASE_ALL = update(pushes).where(_IS_HELD).values(**_RELEASED, seen=UNSEEN)


class SqlPushes:
    """The store's push subscriptions."""

    def __init__(self, executor: Executor, heartbeats: Heartbeats, issuer: Issuer) -> None:
        self._executor, self._heartbeats, self._issuer = executor, heartbeats, issuer

    async def put(self, key: SessionKey, message_id: str, config: PushConfig, *, after: int | None, most: int) -> bool:
        now = self._issuer.now()
        return await self._executor.write(
            lambda connection: _put(connection, key, message_id, config, now, after=after, most=most)
        )

    async def list(self, key: SessionKey, message_id: str) -> Sequence[PushConfig]:
        return await self._executor.read(lambda connection: _list(connection, key, message_id))

    async def remove(self, key: SessionKey, message_id: str, id: str) -> None:
        place = _at(PushPlace(key, message_id, id))
        await self._executor.write(lambda connection: connection.execute(_REMOVE, place))

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[Push]:
        """Claims due subscriptions for the lease's holder."""
        check_limit(limit)
        params = {"at_push_app": app, "at_most": limit}
        if not await self._executor.read(lambda connection: connection.execute(_DUE, params).all()):
            return ()
        await self._heartbeats.join(lease)
        return await self._executor.write(lambda connection: _claim(connection, params | {"at_holder": lease.holder}))

    async def held(self, holder: str) -> Collection[PushPlace]:
        found = await self._executor.read(lambda connection: connection.execute(_HELD, {"at_holder": holder}).all())
        return frozenset(map(_place, found))

    async def tell(self, place: PushPlace, holder: str, told: int) -> bool:
        return await self._update_held(_SET_TOLD, place, holder, number=told)

    async def leave(self, place: PushPlace, holder: str, *, seen: int | None) -> None:
        if seen is None:
            await self._update_held(_CLOSE, place, holder)
        else:
            await self._update_held(_RELEASE, place, holder, number=seen)

    async def give_up(self, holder: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_RELEASE_ALL, {"at_holder": holder}))

    async def _update_held(self, statement: UpdateBase, place: PushPlace, holder: str, **values: int) -> bool:
        """Updates a subscription that the holder has. Returns whether the holder has it."""
        known = {**_at(place), "at_holder": holder, **values}
        return await self._executor.write(lambda connection: connection.execute(statement, known).rowcount > 0)


@cache
def _insert(dialect: str) -> UpdateBase:
    inserted = insert_for(dialect, pushes).values(column_params(pushes))
    new = {column.name: inserted.excluded[column.name] for column in _p if column.name not in {"id", "created_at"}}
    return inserted.on_conflict_do_update(index_elements=["owner", "session", "message_id", "push_id"], set_=new)


def _put(
    connection: Connection, key: SessionKey, message_id: str, config: PushConfig, now: datetime, *, after: int | None, most: int
) -> bool:
    """Stores a subscription. Returns False if the message has `most` others already. Raises SessionMissing."""
    at_message = _at(PushPlace(key, message_id, config.id))
    session = inbox.lock_session(connection, key)
    if session is None:
        raise session_missing(key)
    if connection.execute(_OTHERS, at_message).scalar_one() >= most:
        return False
    body, now_text = config.model_dump_json(), time_text(now)
    if connection.execute(_BODY, at_message).scalar() == body:
        return True
    told = connection.execute(_LAST, session_params(key)).scalar_one() if after is None else after
    row: dict[str, Any] = {"owner": session.owner, "session": session.number, "id": new_id()}
    row |= {"app": key.app, "message_id": message_id, "push_id": config.id, "state": OPEN}
    row |= {"told": told, "seen": UNSEEN, "created_at": now_text, "body": body, **_RELEASED}
    connection.execute(_insert(connection.dialect.name), row)
    return True


def _list(connection: Connection, key: SessionKey, message_id: str) -> list[PushConfig]:
    found = connection.execute(_LIST, _at(PushPlace(key, message_id, ""))).scalars()
    return [PushConfig.model_validate_json(body) for body in found]


@cache
def _due_and_free() -> Select[Any]:
    """Returns the query of due subscriptions. It skips rows that another process is claiming; on SQLite there is one writer
    anyway.
    """
    return _DUE.with_for_update(of=pushes, skip_locked=True)


def _claim(connection: Connection, params: dict[str, Any]) -> list[Push]:
    """Claims the due subscriptions that no other transaction has locked."""
    ids = list(connection.execute(_due_and_free(), params).scalars())
    if not ids:
        return []
    chosen = {"ids": ids, "at_push_app": params["at_push_app"], "at_holder": params["at_holder"]}
    connection.execute(_CLAIM, chosen)
    rows = connection.execute(_CLAIMED, chosen).all()
    return [Push(_place(row), PushConfig.model_validate_json(row.body), row.told) for row in rows]


def _place(row: AnyRow) -> PushPlace:
    return PushPlace(SessionKey(row.app, row.user_id, row.session_id), row.message_id, row.push_id)


def _at(place: PushPlace) -> dict[str, Any]:
    if "\0" in place.message_id or "\0" in place.id:
        raise StoreError("The id of a message or of a notification holds the character NUL.", fix="Leave it out.")
    return session_params(place.key) | {"at_message": place.message_id, "at_push": place.id}
