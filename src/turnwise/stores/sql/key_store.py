"""API keys as rows, without their secrets, and the counters and slots of rate and concurrency limits, by the database's clock.

Changes of that clock are detected, so that leases and windows from before the change stay valid.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Double,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert, UpdateBase

from turnwise.facts.callers import ApiKey
from turnwise.facts.errors import StoreError
from turnwise.ports.key_store import Tally
from turnwise.stores.sql.rows import moment, time_text
from turnwise.stores.sql.tables import clock, column_params, counters, insert_for, keys, places
from turnwise.stores.sql.worker_pool import Executor

_k = keys.c

_FIND_KEY = select(_k.body, _k.expires_at).where(_k.app == bindparam("at_app"), _k.key_id == bindparam("at_id"))
_LIST_KEYS = select(_k.body, _k.expires_at).where(_k.app == bindparam("at_app")).order_by(_k.created_at, _k.key_id)
_IS_KEY = (_k.app == bindparam("at_app")) & (_k.key_id == bindparam("at_id"))
_IS_THERE = select(_k.key_id).where(_IS_KEY)
_EXPIRE_KEY = (
    update(keys)
    .where(_IS_KEY, or_(_k.expires_at.is_(None), _k.expires_at > bindparam("at")))
    .values(expires_at=bindparam("at"))
)
_FORGET_KEY = delete(keys).where(_IS_KEY)


class SqlKeys:
    """The store's API keys."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def add(self, app: str, key: ApiKey) -> None:
        await self._executor.write(lambda connection: _add_key(connection, app, key))

    async def find(self, app: str, id: str) -> ApiKey | None:
        return await self._executor.read(lambda connection: _find_key(connection, app, id))

    async def list(self, app: str) -> Sequence[ApiKey]:
        return await self._executor.read(lambda connection: _list_keys(connection, app))

    async def expire(self, app: str, id: str, at: datetime) -> bool:
        return await self._executor.write(lambda connection: _expire_key(connection, app, id, at))

    async def forget(self, app: str, id: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_FORGET_KEY, _key_at(app, id)))


@cache
def _insert_key(dialect: str) -> ReturningInsert[Any]:
    inserted = insert_for(dialect, keys).values(column_params(keys))
    return inserted.on_conflict_do_nothing(index_elements=["app", "key_id"]).returning(_k.key_id)


def _key_at(app: str, id: str) -> dict[str, Any]:
    if "\0" in app or "\0" in id:
        raise StoreError("A key's app or id holds the character NUL.", fix="Leave it out.")
    return {"at_app": app, "at_id": id}


def _add_key(connection: Connection, app: str, key: ApiKey) -> None:
    """Stores an API key. The same key again changes nothing; another one with its id raises StoreError."""
    at = _key_at(app, key.id)
    expires_at = None if key.expires_at is None else time_text(key.expires_at)
    # The expiry has its own column: the only value that changes later.
    body = key.replace(expires_at=None).model_dump_json()
    row = {"app": app, "key_id": key.id, "created_at": time_text(key.created_at), "expires_at": expires_at, "body": body}
    if connection.execute(_insert_key(connection.dialect.name), row).first() is None:
        existing = connection.execute(_FIND_KEY, at).one()
        if ApiKey.model_validate_json(existing.body).hash != key.hash:
            raise StoreError(f"There is another key with the id {key.id!r}.", fix="Make the key anew: it gets another id.")


def _find_key(connection: Connection, app: str, id: str) -> ApiKey | None:
    row = connection.execute(_FIND_KEY, _key_at(app, id)).first()
    return _key(row) if row else None


def _list_keys(connection: Connection, app: str) -> list[ApiKey]:
    return [_key(row) for row in connection.execute(_LIST_KEYS, {"at_app": _key_at(app, "")["at_app"]})]


def _expire_key(connection: Connection, app: str, id: str, at: datetime) -> bool:
    params = _key_at(app, id)
    connection.execute(_EXPIRE_KEY, {**params, "at": time_text(at)})
    return connection.execute(_IS_THERE, params).first() is not None


def _key(row: Any) -> ApiKey:
    expires_at = None if row.expires_at is None else moment(row.expires_at)
    return ApiKey.model_validate_json(row.body).replace(expires_at=expires_at)


TOLERANCE_SECONDS = 1.0
DRIFT = 0.001
"""How much faster or slower than this process's clock the database's clock may run."""

_NOW = select(clock())


class ClockWatch:
    """Detects changes of the database's clock by comparing it with a monotonic clock of this process. Thread-safe.

    Windows of rate limits go by the database's clock, because all processes share it.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._lock = threading.Lock()
        self._last_read: tuple[float, float] | None = None
        self._changed_at: float | None = None
        self._moved = 0.0

    def read(self, connection: Connection) -> float:
        """Returns the database's time in seconds and checks it against the last reading."""
        before = self._steady()
        now = float(connection.execute(_NOW).scalar_one())
        after = self._steady()
        with self._lock:
            if self._last_read is not None:
                passed = after - self._last_read[1]
                tolerance = TOLERANCE_SECONDS + DRIFT * passed + (after - before)
                moved = now - self._last_read[0] - passed
                if abs(moved) > tolerance:
                    self._changed_at, self._moved = now, moved
            self._last_read = (now, after)
        return now

    def moved(self, connection: Connection, seconds: float) -> float:
        """Returns how far the database's clock was set in the last `seconds`; 0.0 if it was not set.

        A time that was stored before the change is compared with the clock less this number.
        """
        now = self.read(connection)
        with self._lock:
            is_recent = self._changed_at is not None and self._changed_at <= now < self._changed_at + seconds
            return self._moved if is_recent else 0.0


_c, _p = counters.c, places.c

SWEEP_SECONDS = 60.0
SWEEP_BATCH = 500
SPARED_SECONDS = 86_400.0
"""How long after the clock was set rows from before the change are kept until they are over by the old clock."""
LOCK_SEED = 7_236_113
"""Separates these advisory locks from those that other programs derive from hashes."""

_window: BindParameter[float] = bindparam("window", type_=Double())
_LOCK = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("at_name"), LOCK_SEED)))
_seconds: BindParameter[float] = bindparam("seconds", type_=Double())
_OF_NAME = _p.name == bindparam("at_name")
_OF_HOLDER = and_(_OF_NAME, _p.holder == bindparam("at_holder"))
_moved: BindParameter[float] = bindparam("moved", type_=Double())
# A slot that lasts longer than any can: the clock was set back. A slot from before the clock was set is compared with the clock
# as it was.
_IS_LIVE = or_(*(and_(_p.ends > now, _p.ends <= now + 2 * _seconds) for now in (clock(), clock() - _moved)))
# A slot that is over is deleted before another holder takes it. So one that is there may be renewed.
_RENEW_PLACE = update(places).where(_OF_HOLDER).values(ends=clock() + _seconds)
_DELETE_EXPIRED = delete(places).where(_OF_NAME, ~_IS_LIVE)
_COUNT_PLACES = select(func.count()).select_from(places).where(_OF_NAME)
_RELEASE_PLACE = delete(places).where(_OF_HOLDER)


class SqlCounters:
    """The store's counters and slots. Expired rows are deleted now and then, after other calls."""

    def __init__(self, executor: Executor, watch: ClockWatch) -> None:
        self._executor, self._watch = executor, watch
        self._next_sweep = time.monotonic()

    async def add(self, name: str, amount: int, window: float) -> Tally:
        # Repeated after a commit of unknown outcome: it may then count too much, never too little.
        tally = await self._executor.write(lambda connection: _add_count(connection, name, amount, window, self._watch))
        await self._sweep()
        return tally

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        taken = await self._executor.write(lambda connection: take_place(connection, name, holder, most, seconds, self._watch))
        await self._sweep()
        return taken

    async def give(self, name: str, holder: str) -> None:
        await self._executor.write(lambda connection: give_place(connection, name, holder))

    async def _sweep(self) -> None:
        """Deletes expired rows in a separate transaction: deleting other rows while holding one could deadlock."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        with suppress(StoreError):
            if await self._executor.write(lambda connection: _delete_expired(connection, self._watch)):
                self._next_sweep = now


@cache
def _insert_count(dialect: str) -> ReturningInsert[Any]:
    """Returns the statement that adds to a counter, and begins its window anew when it is over by the database's clock."""
    values = {"name": bindparam("at_name"), "total": bindparam("amount", type_=BigInteger()), "ends": clock() + _window}
    insert = insert_for(dialect, counters).values(values)
    new = insert.excluded
    # One reading of the clock, that of the new row. A transaction that waited for the row has an older reading: an end that is
    # a little too late is another transaction's. One that is much too late means that the clock was set back.
    seems_over = or_(_c.ends <= new.ends - _window, _c.ends > new.ends + _window)
    # A window from before the clock was set goes on, by the clock as it is now.
    goes_on = and_(seems_over, _c.ends + _moved > new.ends - _window, _c.ends + _moved <= new.ends)
    changed = {
        "total": case((goes_on, _c.total + new.total), (seems_over, new.total), else_=_c.total + new.total),
        "ends": case((goes_on, _c.ends + _moved), (seems_over, new.ends), else_=_c.ends),
    }
    return insert.on_conflict_do_update(index_elements=["name"], set_=changed).returning(_c.total, _c.ends - clock())


def _add_count(connection: Connection, name: str, amount: int, window: float, watch: ClockWatch) -> Tally:
    values = {**_counter_at(name), "amount": amount, "window": window, "moved": watch.moved(connection, window)}
    total, seconds = connection.execute(_insert_count(connection.dialect.name), values).one()
    return Tally(total, min(max(seconds, 0.0), window))


@cache
def _insert_place(dialect: str) -> UpdateBase:
    values = {"name": bindparam("at_name"), "holder": bindparam("at_holder"), "ends": clock() + _seconds}
    return insert_for(dialect, places).values(values)


def take_place(connection: Connection, name: str, holder: str, most: int, seconds: float, watch: ClockWatch) -> bool:
    """Takes or renews a slot, as `Counters.take`."""
    if connection.dialect.name == "postgresql":
        # Prevents two processes from counting at the same time. On SQLite there is one writer anyway.
        connection.execute(_LOCK, _counter_at(name))
    values = {**_counter_at(name, holder), "seconds": seconds}
    if connection.execute(_RENEW_PLACE, values).rowcount:
        return True
    connection.execute(_DELETE_EXPIRED, {**_counter_at(name), "seconds": seconds, "moved": watch.moved(connection, seconds)})
    if connection.execute(_COUNT_PLACES, _counter_at(name)).scalar_one() >= most:
        return False
    connection.execute(_insert_place(connection.dialect.name), values)
    return True


def give_place(connection: Connection, name: str, holder: str) -> None:
    """Gives a slot back, as `Counters.give`."""
    connection.execute(_RELEASE_PLACE, _counter_at(name, holder))


def _delete_expired(connection: Connection, watch: ClockWatch) -> bool:
    """Deletes a batch of expired counters and slots. Returns whether there may be more."""
    moved = watch.moved(connection, SPARED_SECONDS)
    more_counters, more_places = _delete_some(connection, counters, moved), _delete_some(connection, places, moved)
    return more_counters or more_places


def _delete_some(connection: Connection, table: Table, moved: float) -> bool:
    """Deletes a batch of expired rows. Returns whether there may be more."""
    key, ends = tuple(table.primary_key), table.c.ends
    # Rows that another transaction has locked are in use.
    is_over = and_(ends < clock(), ends < clock() - _moved)
    expired = select(*key).where(is_over).limit(SWEEP_BATCH).with_for_update(skip_locked=True)
    found = connection.execute(expired, {"moved": moved}).all()
    if found:
        is_row = and_(*(column == bindparam(f"at_{column.name}") for column in key))
        connection.execute(
            delete(table).where(is_row), [{f"at_{name}": value for name, value in row._mapping.items()} for row in found]
        )
    return len(found) == SWEEP_BATCH


def _counter_at(name: str, holder: str | None = None) -> dict[str, Any]:
    if "\0" in name or "\0" in (holder or ""):
        raise StoreError("The name of a counter, or a holder, holds the character NUL.", fix="Leave it out.")
    return {"at_name": name} if holder is None else {"at_name": name, "at_holder": holder}
