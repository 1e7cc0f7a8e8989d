"""Worker threads: run jobs on database connections and return the results to event loops, in bounded time."""

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
"""How many seconds a call waits for a database that is unreachable or locked: in the queue, in attempts and between them."""

T = TypeVar("T")

Job = Callable[[Connection], T]
"""Work on a connection inside a transaction. It may run again after a rollback, so it must have no other side effects.

It may also run again after a commit whose outcome is unknown, unless its call is not repeatable.
"""


class Executor(Protocol):
    """Runs jobs on a database's connections, each in one transaction. A write is durable when its call returns."""

    async def read(self, job: Job[T]) -> T: ...
    async def write(self, job: Job[T], *, repeatable: bool = True) -> T: ...
    async def close(self) -> None: ...

    def separate_connection(self) -> "SeparateConnection | None":
        """Returns a connection that is independent of the calls of this executor; None if the database allows only one."""
        ...


class SeparateConnection(Protocol):
    """A connection for one thread, which works without an event loop. It is opened at the first job and after an error."""

    def run(self, job: Job[T]) -> T:
        """Runs the job in one transaction, once. Its commit may be lost when the machine loses power."""
        ...

    def close(self) -> None: ...


WAITING, RUNNING, COMMITTING, DONE, OVERDUE = "waiting", "running", "committing", "done", "overdue"

LATE_SECONDS = 1.0
"""A timer that fires later than this was delayed by its own process, not by a database."""
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1.0


class Call(Generic[T]):
    """A job with the future that its caller awaits. Calls of any event loop may share a thread.

    The worker thread takes it through `begin`, `begin_commit` and `mark_done`. The event loop may end it earlier with `expire`.
    No lock is needed: each side first writes its own flag and then reads the other's.
    """

    # Every database call creates one.
    __slots__ = (
        "_interrupt",
        "_stage",
        "error",
        "future",
        "job",
        "loop",
        "maybe_stored",
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
        """Error of the last attempt, while the call is being retried."""
        self.maybe_stored = False
        """True when an earlier attempt lost its connection during the commit."""
        self.overdue = False
        """True when the caller already got a timeout error."""
        self.outstanding: dict[Call[Any], float] | None = None
        self._stage = WAITING
        self._interrupt: Callable[[], None] | None = None

    def begin(self, interrupt: Callable[[], None] | None = None) -> bool:
        """Marks the call as running. May be called again.

        Args:
            interrupt: Frees the thread when the call times out while it runs; None = nothing can.

        Returns:
            False when the caller already got a timeout error; then the job must not run.
        """
        self._stage, self._interrupt = RUNNING, interrupt
        return not self.overdue

    def begin_commit(self) -> bool:
        """Marks the call as committing and returns whether it may commit. Until `mark_done` the outcome of the commit is
        unknown.
        """
        self._stage = COMMITTING
        return not self.overdue

    def mark_done(self) -> None:
        """Marks the call as done: its result or error is final."""
        self._stage, self._interrupt = DONE, None

    def run(self, connection: Connection) -> bool:
        """Runs the job. Returns False when it failed."""
        self.result = self.error = None
        try:
            self.result = self.job(connection)
        except Exception as error:
            self.error = error
        return self.error is None

    def settle(self) -> None:
        """Gives the result or error to the waiting caller, in the caller's event loop."""
        if self.outstanding is not None:
            self.outstanding.pop(self, None)
        # The caller may have been cancelled or timed out; the job was done anyway.
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]

    def expire(self, database: Database) -> None:
        """Fails the call with a timeout error. It no longer starts, and if it runs, it is not committed.

        The error of a call that is committing says that the outcome is unknown.
        """
        if self._stage is DONE:
            return
        self.overdue = True
        stage, interrupt = self._stage, self._interrupt
        if interrupt is not None:
            interrupt()
        if not self.future.done():
            unknown = not self.reads and (stage is COMMITTING or self.maybe_stored)
            self.future.set_exception(database.timed_out(self.trouble, begun=stage is not WAITING, unknown=unknown))


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Hands results back from a thread, with one wake-up per event loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        call.mark_done()
        waiting.setdefault(call.loop, []).append(call)
    for loop, of_loop in waiting.items():
        # A loop that was closed meanwhile has no waiting callers.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, of_loop)


def _settle_all(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.settle()


def backoff() -> Iterator[float]:
    """Yields the seconds to wait before each further attempt: growing, and randomized so that callers do not collide."""
    pause = FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, LONGEST_PAUSE)


class Deadlines:
    """Fails calls that exceed their database's patience."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._loops: dict[asyncio.AbstractEventLoop, _PendingCalls] = {}
        self._lock = threading.Lock()

    def add(self, call: Call[Any]) -> None:
        """Watches a call of this event loop until it is settled."""
        (self._loops.get(call.loop) or self._enter(call.loop)).add(call)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> "_PendingCalls":
        with self._lock:
            open_loops = {loop_: pending for loop_, pending in self._loops.items() if not loop_.is_closed()}
            self._loops = open_loops | {loop: _PendingCalls(self.database)}
            return self._loops[loop]


class _PendingCalls:
    """The pending calls of one event loop by deadline. One timer serves all, as most calls need none."""

    def __init__(self, database: Database) -> None:
        self._place = database
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
        """Expires the overdue calls of this loop, and sets the timer for the next one."""
        now = time.monotonic()
        assert self._due is not None
        if now - self._due > LATE_SECONDS:
            # This process or its loop was suspended, so the delay says nothing about the database.
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
"""How long `close` waits for threads beyond the patience of their calls."""


class Worker(Protocol):
    """The work of one thread. All its methods run in that thread."""

    def serve(self, calls: list[Call[Any]]) -> None:
        """Runs the calls. Each has a result or an error when this returns. Does not raise."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class _Stop:
    """Queue item that ends one thread, after everything queued before it."""

    def __init__(self, ended: Call[None] | None = None) -> None:
        self.ended = ended


_Queue = SimpleQueue["Call[Any] | _Stop"]


class WorkerPool:
    """Up to `width` threads with a worker each, started on demand. A pool without references ends its threads.

    Args:
        name: Part of the threads' names.
        worker: Creates the worker of a thread.
        deadlines: Bounds how long each call waits.
        width: Most threads.
        batch: Most waiting calls that a worker gets at once.
        grace: How long `close` waits for threads whose calls have all timed out, in seconds.
    """

    def __init__(
        self,
        name: str,
        worker: Callable[[], Worker],
        *,
        deadlines: Deadlines,
        width: int = 1,
        batch: int = 1,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._name, self._worker, self._deadlines, self._width, self._batch = name, worker, deadlines, width, batch
        self._grace = grace
        self._queue: _Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pending = _CallCount()
        self._closed = False

    def submit(self, call: Call[Any]) -> None:
        """Queues a call of this event loop. StoreError after `close`."""
        with self._lock:
            if self._closed:
                raise StoreError("The session store was closed.", fix="Open a new one.")
            self._deadlines.add(call)
            waiting, threads = self._pending.add(1), len(self._threads)
            if waiting > threads and threads < self._width:
                self._start()
            self._queue.put(call)

    def _start(self) -> None:
        """Starts one more worker thread. It ends with the pool."""
        # The thread refers to the queue and not to the pool, so that a pool without references is collected.
        arguments = (self._queue, self._worker(), self._batch, self._pending)
        thread = threading.Thread(target=_work, args=arguments, name=f"turnwise-{self._name}", daemon=True)
        self._threads.append(thread)
        weakref.finalize(self, self._queue.put, _Stop())
        thread.start()

    async def close(self) -> None:
        """Ends the threads after their queued calls. Idempotent. A thread that hangs is left running."""
        with self._lock:
            threads, self._closed = (self._threads if not self._closed else []), True
            stops = [_Stop(Call(_nothing)) for _ in threads]
            for stop in stops:
                self._queue.put(stop)
        ended = [stop.ended.future for stop in stops if stop.ended]
        if not ended:
            return
        _, running = await asyncio.wait(ended, timeout=self._deadlines.database.patience + self._grace)
        if not running:
            for thread in threads:
                thread.join()


def _nothing(_connection: object) -> None:
    return None


class _CallCount:
    """Counts the calls that are queued or running."""

    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def add(self, more: int) -> int:
        with self._lock:
            self._value += more
            return self._value


def _work(queue: _Queue, worker: Worker, batch: int, pending: _CallCount) -> None:
    """Runs batches of calls from the queue until a stop comes. Runs in the worker's thread."""
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
    """Waits for a call and returns it with those that wait already, at most `batch`, and a stop if one came."""
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
