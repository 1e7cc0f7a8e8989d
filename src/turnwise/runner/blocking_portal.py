"""The one sync door: a thread with an event loop of its own, for programs that have none."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Set
from typing import Any, TypeVar

T = TypeVar("T")


class BlockingPortal:
    """Runs coroutines for threads that wait for them. The loop is made at first use, and goes with this instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. An interrupted wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run_loop, args=(self._loop,), name="turnwise-sync-door", daemon=True)
                thread.start()
                weakref.finalize(self, _close, self._loop, thread)
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """All that the thread does; it ends what is left, too, since whoever lets go of the door may be inside another loop."""
    loop.run_forever()
    loop.run_until_complete(_cancel_all(asyncio.all_tasks(loop)))  # what holds something lets go of it in its own task
    loop.run_until_complete(loop.shutdown_asyncgens())  # what is kept for this loop, such as connections to models
    loop.close()


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join()


async def _cancel_all(tasks: Set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
