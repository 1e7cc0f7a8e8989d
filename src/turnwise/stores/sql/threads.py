"""Jobs on their way through a thread, and back to whoever waits for them: in bounded time."""

import asyncio
import contextlib
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

from turnwise.facts.errors import StoreError
from turnwise.stores.sql.errors import Database

PATIENCE = 15.0
"""How many seconds a call waits for a database that is away or locked: in the queue, in tries, and between them."""

T = TypeVar("T")

Job = Callable[[Connection], T]
"""Work on a connection inside a transaction. It may run again after a rollback, so it changes nothing else.

It may also run again after a commit of which nobody knows whether it was done, unless its call is not repeatable.
"""


class Executor(Protocol):
    """Runs jobs on a database's connections, each in one transaction, durable when its call returns."""

    async def read(self, job: Job[T]) -> T: ...
    async def write(self, job: Job[T], *, repeatable: bool = True) -> T: ...
    async def close(self) -> None: ...


WAITING, RUNNING, COMMITTING, DONE, OVERDUE = "waiting", "running", "committing", "done", "overdue"

LATE_SECONDS = 1.0
"""A timer that is later than this was not kept waiting by a database."""
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1.0


class Call(Generic[T]):
    """One job, and the future of the event loop that asked for it: any loop, not always the same.

    A thread leads it through `begin`, `commits` and `ends`. The event loop may put an end to it before, with `expire`.
    They need no lock: each side first says what it does, and then looks what the other does.
    """

    # One is made for every call there is.
    __slots__ = (
        "_cut",
        "_stage",
        "error",
        "future",
        "job",
        "loop",
        "outstanding",
        "overdue",
        "reads",
        "repeatable",
        "result",
        "trouble",
    )

    def __init__(self, job: Job[T], *, reads: bool = False, repeatable: bool = True) -> None:
        self.job = job
        self.reads = reads
        self.repeatable = repeatable
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: Exception | None = None
        self.trouble: Exception | None = None
        """Why its last try failed, if it is tried again."""
        self.overdue = False
        """Whether its caller was told that it took too long."""
        self.outstanding: dict[Call[Any], float] | None = None
        self._stage = WAITING
        self._cut: Callable[[], None] | None = None

    def begin(self, cut: Callable[[], None] | None = None) -> bool:
        """Whether it may be run: not when its caller was told already that it failed. May be asked again.

        cut: what frees the thread when the caller is told so meanwhile, if anything can.
        """
        self._stage, self._cut = RUNNING, cut
        return not self.overdue

    def begin_commit(self) -> bool:
        """Whether what it did may be committed. From then on nobody knows whether it was, until it `ends`."""
        self._stage = COMMITTING
        return not self.overdue

    def ends(self) -> None:
        """Its result or its error stands, and is on the way."""
        self._stage, self._cut = DONE, None

    def run(self, connection: Connection) -> bool:
        """Does the job; False when it failed."""
        self.result = self.error = None
        try:
            self.result = self.job(connection)
        except Exception as error:
            self.error = error
        return self.error is None

    def settle(self) -> None:
        if self.outstanding is not None:
            self.outstanding.pop(self, None)
        # The waiter may have been cancelled, or told that it took too long; the job was done all the same.
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]

    def expire(self, place: Database) -> None:
        """Tells the caller that it took too long. It is not run from now on; what runs of it is not committed."""
        if self._stage is DONE:
            return
        self.overdue = True
        stage, cut = self._stage, self._cut
        if cut is not None:
            cut()
        if not self.future.done():
            unknown = stage is COMMITTING and not self.repeatable
            self.future.set_exception(place.overdue(self.trouble, begun=stage is not WAITING, unknown=unknown))


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Hands results back from a thread, waking each event loop once."""
    waiting: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        call.ends()
        waiting.setdefault(call.loop, []).append(call)
    for loop, its in waiting.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, its)


def _settle_all(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.settle()


def backoff() -> Iterator[float]:
    """How many seconds to wait before each further try: growing, and not the same for all who wait."""
    pause = FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, LONGEST_PAUSE)


class Deadlines:
    """Puts an end to calls of which nobody heard for as long as their place allows."""

    def __init__(self, place: Database) -> None:
        self.place = place
        self._loops: dict[asyncio.AbstractEventLoop, _PendingCalls] = {}
        self._lock = threading.Lock()

    def add(self, call: Call[Any]) -> None:
        """Watches a call of this event loop until it is settled."""
        (self._loops.get(call.loop) or self._enter(call.loop)).add(call)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> "_PendingCalls":
        with self._lock:
            kept = {known: its for known, its in self._loops.items() if not known.is_closed()}
            self._loops = kept | {loop: _PendingCalls(self.place)}
            return self._loops[loop]


class _PendingCalls:
    """The calls of one event loop, in the order of their deadlines: one timer for all, as most of them never need any."""

    def __init__(self, place: Database) -> None:
        self._place = place
        self._deadlines: dict[Call[Any], float] = {}
        self._due: float | None = None

    def add(self, call: Call[Any]) -> None:
        deadline = self._deadlines[call] = time.monotonic() + self._place.patience
        call.outstanding = self._deadlines
        if self._due is None:
            self._arm(call.loop, deadline)

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        self._due = deadline
        loop.call_later(deadline - time.monotonic(), self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        assert self._due is not None
        if now - self._due > LATE_SECONDS:
            # This process stood still, or its loop did: that says nothing about the database.
            self._deadlines.update(dict.fromkeys(self._deadlines, now + self._place.patience))
        self._due = None
        while self._deadlines:
            call, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                self._arm(loop, deadline)
                return
            del self._deadlines[call]
            call.expire(self._place)


GRACE_SECONDS = 15.0


class Worker(Protocol):
    """What one thread does. Everything but its making happens in that thread."""

    def serve(self, calls: list[Call[Any]]) -> None:
        """Does the calls; each has a result or an error when this returns. Does not raise."""
        ...

    def close(self) -> None:
        """Gives back the connection."""
        ...


class _Stop:
    """Ends one thread, after all that was queued before it."""

    def __init__(self, ended: Call[None] | None = None) -> None:
        self.ended = ended


_Queue = SimpleQueue["Call[Any] | _Stop"]


class WorkerPool:
    """Up to `width` threads, each with a worker of its own, started when there is work for them.

    watch: bounds how long each call waits. batch: how many waiting calls a worker is given at once. grace: for how many
    seconds `close` waits for threads when all their callers were told that it takes too long. An instance that nobody holds
    any more ends its threads.
    """

    def __init__(
        self,
        name: str,
        worker: Callable[[], Worker],
        *,
        watch: Deadlines,
        width: int = 1,
        batch: int = 1,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._name, self._worker, self._watch, self._width, self._batch = name, worker, watch, width, batch
        self._grace = grace
        self._queue: _Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pending = _Counter()
        self._closed = False

    def submit(self, call: Call[Any]) -> None:
        """Queues a call of this event loop. StoreError after `close`."""
        with self._lock:
            if self._closed:
                raise StoreError("The session store was closed.", fix="Open a new one.")
            self._watch.add(call)
            waiting, threads = self._pending.add(1), len(self._threads)
            if waiting > threads and threads < self._width:
                self._start()
            self._queue.put(call)

    def _start(self) -> None:
        # The thread knows the queue and not the lane, so that a forgotten lane can go.
        arguments = (self._queue, self._worker(), self._batch, self._pending)
        thread = threading.Thread(target=_work, args=arguments, name=f"turnwise-{self._name}", daemon=True)
        self._threads.append(thread)
        weakref.finalize(self, self._queue.put, _Stop())
        thread.start()

    async def close(self) -> None:
        """Ends the threads after what is queued. Idempotent. A thread that nothing frees is left alone."""
        with self._lock:
            threads, self._closed = (self._threads if not self._closed else []), True
            stops = [_Stop(Call(_nothing)) for _ in threads]
            for stop in stops:
                self._queue.put(stop)
        ended = [stop.ended.future for stop in stops if stop.ended]
        if not ended:
            return
        _, standing = await asyncio.wait(ended, timeout=self._watch.place.patience + self._grace)
        if not standing:
            for thread in threads:
                thread.join()


def _nothing(_connection: object) -> None:
    return None


class _Counter:
    """How many calls are queued or at work."""

    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def add(self, more: int) -> int:
        with self._lock:
            self._value += more
            return self._value


def _work(queue: _Queue, worker: Worker, batch: int, pending: _Counter) -> None:
    while True:
        calls, stop = _next_batch(queue, batch)
        if calls:
            worker.serve(calls)
            pending.add(-len(calls))
            deliver(calls)
        if stop:
            worker.close()
            if stop.ended:
                deliver([stop.ended])
            return


def _next_batch(queue: _Queue, batch: int) -> tuple[list[Call[Any]], _Stop | None]:
    calls: list[Call[Any]] = []
    item = queue.get()
    try:
        while True:
            if isinstance(item, _Stop):
                return calls, item
            calls.append(item)
            if len(calls) == batch:
                return calls, None
            item = queue.get_nowait()
    except Empty:
        return calls, None
