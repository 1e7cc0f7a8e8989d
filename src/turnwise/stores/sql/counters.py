"""Counters and places as rows, by the database's clock."""

import time
from contextlib import suppress
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

from turnwise.facts.errors import StoreError
from turnwise.ports.key_store import Tally
from turnwise.stores.sql.tables import clock, counters, insert_for, places
from turnwise.stores.sql.threads import Executor

_c, _p = counters.c, places.c

SWEEP_SECONDS = 60.0
SWEEP_BATCH = 500
LOCK_SEED = 7_236_113
"""Any number: so that others who lock by a hash of some text lock something else."""

_window: BindParameter[float] = bindparam("window", type_=Double())
_LOCK = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("at_name"), LOCK_SEED)))
_seconds: BindParameter[float] = bindparam("seconds", type_=Double())
_OF_NAME = _p.name == bindparam("at_name")
_OF_HOLDER = and_(_OF_NAME, _p.holder == bindparam("at_holder"))
# One that lasts longer than any that was taken: the clock was set back.
_IS_LIVE = and_(_p.ends > clock(), _p.ends <= clock() + 2 * _seconds)
_RENEW = update(places).where(_OF_HOLDER, _IS_LIVE).values(ends=clock() + _seconds)
_DELETE_EXPIRED = delete(places).where(_OF_NAME, ~_IS_LIVE)
_COUNT = select(func.count()).select_from(places).where(_OF_NAME)
_RELEASE = delete(places).where(_OF_HOLDER)


class SqlCounters:
    """The store's counters and places. What is over is deleted now and then, on the way."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._sweeps_at = time.monotonic()

    async def add(self, name: str, amount: int, window: float) -> Tally:
        # Made twice after a commit of which nobody knows: then it counts too much, never too little.
        tally = await self._executor.write(lambda connection: _add(connection, name, amount, window))
        await self._sweep()
        return tally

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        taken = await self._executor.write(lambda connection: _take(connection, name, holder, most, seconds))
        await self._sweep()
        return taken

    async def give(self, name: str, holder: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_RELEASE, _at(name, holder)))

    async def _sweep(self) -> None:
        """In a transaction of its own: whoever deletes rows of others while he holds one may wait for them in a circle."""
        now = time.monotonic()
        if now < self._sweeps_at:
            return
        self._sweeps_at = now + SWEEP_SECONDS
        with suppress(StoreError):
            if await self._executor.write(_delete_expired):
                self._sweeps_at = now


@cache
def _insert_count(dialect: str) -> ReturningInsert[Any]:
    values = {"name": bindparam("at_name"), "total": bindparam("amount", type_=BigInteger()), "ends": clock() + _window}
    insert = insert_for(dialect, counters).values(values)
    new = insert.excluded
    # All by one look at the clock, the new row's. One who had to wait for the row looked before others did: so an end that
    # is only a little too late is theirs, and one that is much too late means that the clock was set back.
    over = or_(_c.ends <= new.ends - _window, _c.ends > new.ends + _window)
    changed = {
        "total": case((over, new.total), else_=_c.total + new.total),
        "ends": case((over, new.ends), else_=_c.ends),
    }
    return insert.on_conflict_do_update(index_elements=["name"], set_=changed).returning(_c.total, _c.ends - clock())


def _add(connection: Connection, name: str, amount: int, window: float) -> Tally:
    values = {**_at(name), "amount": amount, "window": window}
    total, seconds = connection.execute(_insert_count(connection.dialect.name), values).one()
    return Tally(total, min(max(seconds, 0.0), window))


@cache
def _insert_place(dialect: str) -> UpdateBase:
    values = {"name": bindparam("at_name"), "holder": bindparam("at_holder"), "ends": clock() + _seconds}
    return insert_for(dialect, places).values(values)


def _take(connection: Connection, name: str, holder: str, most: int, seconds: float) -> bool:
    if connection.dialect.name == "postgresql":
        # Else two would count at the same time. On SQLite there is one writer anyway.
        connection.execute(_LOCK, _at(name))
    values = {**_at(name, holder), "seconds": seconds}
    if connection.execute(_RENEW, values).rowcount:
        return True
    connection.execute(_DELETE_EXPIRED, {**_at(name), "seconds": seconds})
    if connection.execute(_COUNT, _at(name)).scalar_one() >= most:
        return False
    connection.execute(_insert_place(connection.dialect.name), values)
    return True


def _delete_expired(connection: Connection) -> bool:
    """Deletes some of it; whether there may be more."""
    more_counters, more_places = _delete_some(connection, counters), _delete_some(connection, places)
    return more_counters or more_places


def _delete_some(connection: Connection, table: Table) -> bool:
    key = tuple(table.primary_key)
    # Those that somebody is at are not over.
    some = select(*key).where(table.c.ends < clock()).limit(SWEEP_BATCH).with_for_update(skip_locked=True)
    found = connection.execute(some).all()
    if found:
        mine = and_(*(column == bindparam(f"at_{column.name}") for column in key))
        connection.execute(
            delete(table).where(mine), [{f"at_{name}": value for name, value in row._mapping.items()} for row in found]
        )
    return len(found) == SWEEP_BATCH


def _at(name: str, holder: str | None = None) -> dict[str, Any]:
    if "\0" in name or "\0" in (holder or ""):
        raise StoreError("The name of a counter, or a holder, holds the character NUL.", fix="Leave it out.")
    return {"at_name": name} if holder is None else {"at_name": name, "at_holder": holder}
