"""Heartbeats: one row per lease holder, renewed by a thread. A silent holder loses its row, and with it all its leases."""

import asyncio
import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, bindparam, delete, select, update

from turnwise.facts.ids import Issuer
from turnwise.ports.stores import Lease
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.tables import clock, column_params, insert_for, processes
from turnwise.stores.sql.worker_pool import Executor, SeparateConnection

PERIOD_SECONDS = 1.0
"""The interval of the heartbeats. Holders with a shorter timeout beat more often."""
SETTLE_SECONDS = 5.0
"""How long `settle` waits at most."""

log = logging.getLogger("turnwise.stores")

_p = processes.c

_NAME: BindParameter[str] = bindparam("at_name")
_BEAT = (
    update(processes)
    .where(_p.name.in_(bindparam("names", expanding=True)))
    .values(count=_p.count + 1, beat=clock())
    .returning(_p.name)
)
_ROWS = select(_p.name, _p.seconds, _p.count, _p.beat, clock() - _p.beat)
_LEAVE = delete(processes).where(_p.name.in_(bindparam("names", expanding=True)))
_BURY = delete(processes).where(_p.name == _NAME, _p.count == bindparam("at_count"))
_IS_ALIVE = PreparedStatement(select(_p.name).where(_p.name == _NAME))


@cache
def _insert(dialect: str) -> Any:
    inserted = insert_for(dialect, processes).values(column_params(processes, "count", "beat") | {"count": 1, "beat": clock()})
    new = {"seconds": inserted.excluded.seconds, "count": _p.count + 1, "beat": clock(), "serves": inserted.excluded.serves}
    return inserted.on_conflict_do_update(index_elements=["name"], set_=new)


def is_alive(connection: Connection, holder: str) -> bool:
    """Returns whether the holder of a lease has a heartbeat."""
    return _IS_ALIVE.row(connection, {"at_name": holder}) is not None


class HeartbeatRow(NamedTuple):
    """The heartbeat of a holder."""

    name: str
    seconds: float
    """The holder is dead when it is silent for so long."""
    number: int
    """The number of heartbeats so far."""
    beat: float
    age: float
    """How old the last heartbeat is, by the database's clock."""

    @property
    def period(self) -> float:
        return period_of(self.seconds)


def period_of(seconds: float) -> float:
    """Returns the interval of heartbeats for a timeout."""
    return min(PERIOD_SECONDS, seconds / 3)


class _Seen(NamedTuple):
    beat: tuple[int, float]
    since: float
    is_first: bool
    """Whether this is the heartbeat that was there at the first look."""


class Observer:
    """Decides which holders are dead, from repeated readings of the heartbeats.

    A holder is dead when its heartbeat has not changed for the holder's timeout, measured by this process. Setting the
    database's clock thus changes nothing. A heartbeat that is older than the timeout by that clock, too, and was never seen to
    change, is dead after half of it. After a gap in the readings, all are observed anew: what delayed this process may have
    delayed the others, too.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._last: float | None = None
        self.is_in_doubt = False
        """Whether a holder was silent ever since the first look, and may soon be found dead."""

    def read(self, rows: Sequence[HeartbeatRow], now: float, period: float) -> list[HeartbeatRow]:
        """Returns the holders that are dead.

        Args:
            rows: The heartbeats of all other holders.
            now: Monotonic seconds.
            period: The interval of the readings.
        """
        has_gap = self._last is not None and now - self._last > 2 * period
        self._last = now
        before, self._seen = self._seen, {}
        dead, self.is_in_doubt = [], False
        for row in rows:
            seen = before.get(row.name)
            if seen is None:
                seen = _Seen((row.number, row.beat), now, is_first=True)
            elif seen.beat != (row.number, row.beat) or has_gap:
                seen = _Seen((row.number, row.beat), now, is_first=False)
            self._seen[row.name] = seen
            if _is_dead(row, seen, now):
                dead.append(row)
            elif seen.is_first and row.age > 1.5 * row.period:
                self.is_in_doubt = True
        return dead


def _is_dead(row: HeartbeatRow, seen: _Seen, now: float) -> bool:
    silence = now - seen.since
    return silence >= row.seconds or (seen.is_first and row.age > row.seconds and silence >= row.seconds / 2)


class _Holder(NamedTuple):
    seconds: float
    loops: "weakref.WeakSet[asyncio.AbstractEventLoop]"

    @property
    def is_open(self) -> bool:
        return _any_open(self.loops)


def _any_open(loops: "weakref.WeakSet[asyncio.AbstractEventLoop]") -> bool:
    return any(not loop.is_closed() for loop in loops)


class _Roster:
    """The holders of this process. Thread-safe.

    A holder beats while one of its event loops is open: nobody else would continue the work of a closed loop.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._holders: dict[str, _Holder] = {}
        self._observing: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self.deaths: Counter[str] = Counter()
        """How often other processes found a holder dead."""
        self.serves: dict[str, str] = {}
        """What holders say that they serve."""

    def has(self, name: str, loop: asyncio.AbstractEventLoop) -> bool:
        holder = self._holders.get(name)
        return holder is not None and loop in holder.loops

    def knows(self, name: str) -> bool:
        return name in self._holders

    def add(self, lease: Lease, loop: asyncio.AbstractEventLoop) -> None:
        with self.lock:
            holder = self._holders.setdefault(lease.holder, _Holder(lease.seconds, weakref.WeakSet()))
            holder.loops.add(loop)

    def observe(self, loop: asyncio.AbstractEventLoop) -> None:
        """Observes other holders while the loop is open, even if no holder beats here."""
        with self.lock:
            self._observing.add(loop)

    def remove(self, name: str) -> bool:
        """Removes a holder. Returns whether it was there."""
        with self.lock:
            self.deaths.pop(name, None)
            self.serves.pop(name, None)
            return self._holders.pop(name, None) is not None

    def closed(self) -> list[str]:
        """Returns the holders without an open loop."""
        with self.lock:
            return [name for name, holder in self._holders.items() if not holder.is_open]

    def timeouts(self) -> dict[str, float]:
        """Returns the timeout of each holder."""
        with self.lock:
            return {name: holder.seconds for name, holder in self._holders.items()}

    @property
    def is_needed(self) -> bool:
        with self.lock:
            return bool(self._holders) or _any_open(self._observing)


class Heartbeats:
    """The heartbeats of the holders in this process, and the judgement of all others.

    A database in memory has no other processes: its holders live until they leave or their event loop is closed.

    Args:
        executor: Runs the statements.
        issuer: Gives the time of records.
        on_death: Called by a thread after this process found a holder dead. It must not refer to this object.
    """

    def __init__(self, executor: Executor, issuer: Issuer, on_death: Callable[[], None]) -> None:
        self._executor, self._issuer, self._on_death = executor, issuer, on_death
        self._roster = _Roster()
        self._thread: _BeatThread | None = None

    async def join(self, lease: Lease) -> None:
        """Stores the holder's first heartbeat and renews it from now on. Does nothing if the holder is beating."""
        loop = asyncio.get_running_loop()
        if self._roster.has(lease.holder, loop) and not self._roster.closed():
            return
        await self._drop_closed()
        await self._store_first(lease)

    async def introduce(self, lease: Lease, serves: str) -> None:
        """Stores a heartbeat of the holder with what it serves. Later heartbeats keep that."""
        self._roster.serves[lease.holder] = serves
        await self._store_first(lease)

    async def _store_first(self, lease: Lease) -> None:
        row = _first_row(lease.holder, lease.seconds, time_text(self._issuer.now()), self._roster.serves)
        await self._executor.write(lambda connection: connection.execute(_insert(connection.dialect.name), row))
        self._roster.add(lease, asyncio.get_running_loop())
        self._start()

    def is_unsure_of(self, holder: str) -> bool:
        """Returns whether the holder may be dead although it has a heartbeat: it was not judged yet."""
        if self._roster.closed():
            return True
        if self._roster.knows(holder):
            return False
        return self._thread is None or self._thread.ended.is_set or not self._thread.settled.is_set

    def deaths(self, holder: str) -> int:
        return self._roster.deaths[holder]

    async def leave(self, holder: str) -> None:
        """Ends the heartbeat of a holder of this process. Its leases are void at once. Does nothing for others."""
        if self._roster.remove(holder):
            await self._delete([holder])

    async def settle(self) -> None:
        """Observes the other holders from now on. Waits until those found silent at first are judged.

        In a database in memory, ends the holders whose event loop is closed.
        """
        await self._drop_closed()
        self._roster.observe(asyncio.get_running_loop())
        if self._thread is None or self._thread.ended.is_set:
            # Creates the tables, if there are none.
            await self._executor.read(_nothing)
            self._start()
        if self._thread is not None:
            await self._thread.settled.wait()

    async def close(self) -> None:
        """Ends all heartbeats. Idempotent."""
        if self._thread is not None:
            self._thread.stop()
            await self._thread.ended.wait()

    async def _drop_closed(self) -> None:
        names = [name for name in self._roster.closed() if self._roster.remove(name)]
        if names:
            await self._delete(names)

    async def _delete(self, names: list[str]) -> None:
        if self._thread is None:
            await self._executor.write(lambda connection: connection.execute(_LEAVE, {"names": names}))
        else:
            # The thread deletes it, because it would store a row again that is deleted during its round.
            await self._thread.leave(names).wait()

    def _start(self) -> None:
        """Starts the thread, unless it runs. Databases in memory need none."""
        with self._roster.lock:
            if self._thread is not None and not self._thread.ended.is_set:
                return
            connection = self._executor.separate_connection()
            if connection is None:
                return
            self._thread = _BeatThread(self._roster, connection, self._issuer, self._on_death)
            # The thread does not refer to this object, so that a store without references is collected.
            weakref.finalize(self, self._thread.stop)
            self._thread.start()


def _nothing(_connection: Connection) -> None:
    return None


class _Event:
    """An event that a thread sets and that tasks of any event loop wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: list[asyncio.Future[None]] = []
        self.is_set = False

    def set(self) -> None:
        """Sets the event, and wakes its waiters in all event loops."""
        with self._lock:
            waiters, self._waiters, self.is_set = self._waiters, [], True
        for waiter in waiters:
            # A loop that was closed meanwhile has no waiting tasks.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    async def wait(self) -> None:
        """Waits until the event is set."""
        with self._lock:
            if self.is_set:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
        await waiter


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class _BeatThread:
    """Renews and observes heartbeats on a separate connection until no holder needs it, independently of all event loops."""

    def __init__(self, roster: _Roster, connection: SeparateConnection, issuer: Issuer, on_death: Callable[[], None]) -> None:
        self._roster, self._connection, self._issuer, self._on_death = roster, connection, issuer, on_death
        self._observer = Observer()
        self._news = threading.Event()
        self._is_stopped = self._is_failing = False
        self._leaving: dict[str, _Event] = {}
        self._started = self._beaten = time.monotonic()
        self.ended = _Event()
        self.settled = _Event()
        """Set when the holders that were silent at first have been judged, or cannot be."""

    def start(self) -> None:
        threading.Thread(target=self._run, name="turnwise-heartbeats", daemon=True).start()

    def stop(self) -> None:
        self._is_stopped = True
        self._news.set()

    def leave(self, names: Sequence[str]) -> _Event:
        """Deletes these rows at once. Returns an event that is set afterwards, even if it failed."""
        done = _Event()
        with self._roster.lock:
            if self.ended.is_set:
                done.set()
            self._leaving |= dict.fromkeys(names, done)
        self._news.set()
        return done

    def _run(self) -> None:
        """Beats until stopped: often enough for the shortest timeout, more often while a holder is in doubt."""
        try:
            while self._goes_on():
                self._news.clear()
                timeouts = self._roster.timeouts().values()
                period = min(map(period_of, timeouts), default=PERIOD_SECONDS)
                try:
                    self._round(period)
                    self._went_well()
                except Exception as error:
                    self._failed(error)
                self._news.wait(period / 4 if self._observer.is_in_doubt else period)
        finally:
            self._connection.close()

    def _goes_on(self) -> bool:
        """Returns whether there is anything to do. If not, ends the thread: a holder that joins then starts another one."""
        with self._roster.lock:
            if not self._is_stopped and (self._leaving or self._roster.is_needed):
                return True
            with suppress(Exception):
                self._delete([*self._roster.timeouts(), *self._leaving])
            for done in (*self._leaving.values(), self.settled, self.ended):
                done.set()
            return False

    def _round(self, period: float) -> None:
        """Deletes the rows of closed holders, renews the own rows, and judges the rows of other processes."""
        closed = [name for name in self._roster.closed() if self._roster.remove(name)]
        with self._roster.lock:
            leaving, self._leaving = self._leaving, {}
        try:
            self._delete([*closed, *leaving])
        finally:
            for done in leaving.values():
                done.set()
        own = self._roster.timeouts()
        first = {name: _first_row(name, own[name], time_text(self._issuer.now()), self._roster.serves) for name in own}
        lost, rows = self._connection.run(lambda connection: _beat(connection, first))
        for name in lost:
            self._roster.deaths[name] += 1
            log.warning("Lease holder %s was silent for too long; other processes may have taken its sessions.", name)
        self._judge([row for row in rows if row.name not in own], period)

    def _judge(self, others: Sequence[HeartbeatRow], period: float) -> None:
        """Deletes the rows of holders that were silent for too long, which ends their leases."""
        dead = self._observer.read(others, time.monotonic(), period)
        if dead:
            buried = self._connection.run(lambda connection: _bury(connection, dead))
            for row in buried:
                log.info("Lease holder %s is dead: no heartbeat for %g s.", row.name, row.seconds)
            if buried:
                self._on_death()
        if not self._observer.is_in_doubt or time.monotonic() > self._started + SETTLE_SECONDS:
            self.settled.set()

    def _delete(self, names: Sequence[str]) -> None:
        if names:
            self._connection.run(lambda connection: connection.execute(_LEAVE, {"names": list(names)}))

    def _went_well(self) -> None:
        self._beaten = time.monotonic()
        if self._is_failing:
            log.info("Heartbeats can be stored again.")
        self._is_failing = False

    def _failed(self, error: Exception) -> None:
        """Logs the first of a series of failures, once this process may count as silent."""
        # Whoever waits for the judgement gets the error of its own call.
        self.settled.set()
        timeouts = self._roster.timeouts().values()
        if not self._is_failing and time.monotonic() - self._beaten > min(timeouts, default=PERIOD_SECONDS):
            self._is_failing = True
            log.warning("Heartbeats cannot be stored; other processes may take the sessions of this one: %s", error)


def _first_row(name: str, seconds: float, now: str, serves: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "seconds": seconds, "started_at": now, "serves": serves.get(name)}


def _beat(connection: Connection, own: Mapping[str, dict[str, Any]]) -> tuple[Collection[str], list[HeartbeatRow]]:
    """Renews the rows of these holders, whose first rows are given. Returns those that had lost their row, and all rows."""
    beaten = set(connection.execute(_BEAT, {"names": list(own)}).scalars()) if own else set[str]()
    lost = own.keys() - beaten
    for name in lost:
        connection.execute(_insert(connection.dialect.name), own[name])
    return lost, [HeartbeatRow(*row) for row in connection.execute(_ROWS)]


def _bury(connection: Connection, dead: Sequence[HeartbeatRow]) -> list[HeartbeatRow]:
    """Deletes the rows of holders that have not beaten since, and returns them."""
    at = [{"at_name": row.name, "at_count": row.number} for row in dead]
    return [row for row, params in zip(dead, at, strict=True) if connection.execute(_BURY, params).rowcount]
