"""Runs coroutines for sync callers on a background event loop."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Set
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, TypeVar

from turnwise.facts.errors import ConfigError

T = TypeVar("T")


class BlockingPortal:
    """Runs coroutines for threads that wait for the results. Starts its loop at first use, and ends it with this instance.

    Args:
        fix: The fix of the error inside an event loop: what to write instead.
    """

    def __init__(self, fix: str) -> None:
        self._fix = fix
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Returns the coroutine's result. An interrupted wait cancels the coroutine, which may clean up with `await`.

        Raises:
            ConfigError: It was called inside a running event loop, which it would block.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            coroutine.close()
            raise ConfigError("run_sync was called inside an event loop.", fix=self._fix)
        loop, call = self._running_loop(), _Call(coroutine)
        try:
            loop.call_soon_threadsafe(call.start)
            return call.result.result()
        except BaseException:
            # An interrupt may come at any instruction, also before the call began.
            loop.call_soon_threadsafe(call.cancel)
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the background event loop; the first call starts it in a daemon thread."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run_loop, args=(self._loop,), name="turnwise-sync-door", daemon=True)
                thread.start()
                weakref.finalize(self, _close, self._loop, thread)
            return self._loop


class _Call(Generic[T]):
    """A coroutine with the result that another thread waits for. `start` and `cancel` run in the loop, in any order."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.result: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def start(self) -> None:
        if self._cancelled:
            return
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def _finish(self, task: "asyncio.Task[T]") -> None:
        """Passes the task's result, error or cancellation to the waiting thread."""
        if task.cancelled():
            self.result.set_exception(CancelledError())
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop and then cleans it up in this thread, since the portal may be released inside another loop."""
    loop.run_forever()
    loop.run_until_complete(_cancel_all(asyncio.all_tasks(loop)))  # tasks release their resources themselves
    loop.run_until_complete(loop.shutdown_asyncgens())  # resources of this loop, such as connections to models
    loop.close()


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join()


async def _cancel_all(tasks: Set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
