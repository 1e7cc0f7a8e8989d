"""Functions that are not async, run in a thread so that they hold nobody up."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

AT_ONCE = 64
"""How many functions run at once in this process; further ones wait for one of them to end."""


async def in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function gives, or raises; with the caller's context variables.

    Its thread is none of the event loop's: a function that hangs holds up neither what else the loop does in threads, nor
    the end of the loop or of the process, which ends without it.
    """
    context = contextvars.copy_context()
    future: Future[Any] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(context.run(function, *arguments, **named))
        except (StopIteration, GeneratorExit) as stop:
            # A future cannot carry these: whoever waits would wait forever, or be closed.
            problem = RuntimeError(f"The function raised {type(stop).__name__}.").with_traceback(stop.__traceback__)
            problem.__cause__ = stop
            future.set_exception(problem)
        except BaseException as error:
            future.set_exception(error)

    _threads.start(work)
    return await asyncio.wrap_future(future)


class Threads:
    """Runs work, which raises nothing, in at most so many threads at once; none of them holds up the end of the process."""

    def __init__(self, most: int) -> None:
        self._most, self._running = most, 0
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def start(self, work: Callable[[], None]) -> None:
        """Begins it, or lets it wait for its turn. RuntimeError when the system has no thread left."""
        with self._lock:
            if self._running >= self._most:
                self._waiting.append(work)
                return
            self._running += 1
        try:
            threading.Thread(target=self._work_off, args=(work,), name="turnwise-tool", daemon=True).start()
        except BaseException:
            with self._lock:
                self._running -= 1
            raise

    def _work_off(self, work: Callable[[], None]) -> None:
        following: Callable[[], None] | None = work
        while following is not None:
            following()
            following = self._next()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


_threads = Threads(AT_ONCE)
