"""Work in an event loop: sync functions in threads, awaitables side by side, and long loops that let other tasks run."""

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from turnwise.ports.context import Suspend

MAX_THREADS = 64
"""The most functions that run at the same time in this process; others wait."""

HOLD_SECONDS = 0.02
"""The longest time, in seconds, that one task may run before it yields to others."""

T = TypeVar("T")


async def in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Runs the function in a thread, with the caller's context variables, and returns its result.

    The thread does not belong to the event loop's executor. A function that hangs therefore delays neither other work
    in threads nor the end of the loop or the process. Exceptions of the function are raised.
    """
    context = contextvars.copy_context()
    future: Future[Any] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(context.run(function, *arguments, **named))
        except (StopIteration, GeneratorExit) as error:
            # A future cannot carry these: the waiting caller would hang or be closed.
            problem = RuntimeError(f"The function raised {type(error).__name__}.").with_traceback(error.__traceback__)
            problem.__cause__ = error
            future.set_exception(problem)
        except BaseException as error:
            future.set_exception(error)

    _threads.start(work)
    return await asyncio.wrap_future(future)


class LoopYielder:
    """Yields to the event loop now and then. For loops in which no await may ever pause, such as reading a buffered stream."""

    def __init__(self, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._since = time.perf_counter()

    async def turn(self) -> None:
        """Lets other tasks run, including timers and cancellation, if the time limit has passed since the last yield."""
        if time.perf_counter() - self._since > self._seconds:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


class Threads:
    """Runs work in at most `most` daemon threads at once, which do not delay the end of the process.

    The work must not raise.
    """

    def __init__(self, most: int) -> None:
        self._limit, self._running = most, 0
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def start(self, work: Callable[[], None]) -> None:
        """Starts the work, or queues it. Raises RuntimeError if the system has no thread left."""
        with self._lock:
            if self._running >= self._limit:
                self._waiting.append(work)
                return
            self._running += 1
        try:
            threading.Thread(target=self._run_queue, args=(work,), name="turnwise-tool", daemon=True).start()
        except BaseException:
            with self._lock:
                self._running -= 1
            raise

    def _run_queue(self, work: Callable[[], None]) -> None:
        current: Callable[[], None] | None = work
        while current is not None:
            current()
            current = self._next_work()

    def _next_work(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


_threads = Threads(MAX_THREADS)


async def run_together(awaitables: Sequence[Awaitable[T]]) -> Sequence[T]:
    """Runs the awaitables concurrently and returns their results in order.

    When one raises, or the caller is cancelled, the others are cancelled. One that suspends does not stop the others:
    Suspend is raised once all others are done.
    """
    if len(awaitables) == 1:
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(work) for work in awaitables]
    try:
        suspended = await asyncio.gather(*map(_is_suspended, tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if any(suspended):
        raise Suspend
    return [task.result() for task in tasks]


async def _is_suspended(task: "asyncio.Future[T]") -> bool:
    try:
        await task
    except Suspend:
        return True
    return False
