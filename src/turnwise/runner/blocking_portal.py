"""Runs coroutines for sync callers on a background event loop."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Set
from typing import Any, TypeVar

from turnwise.facts.errors import ConfigError

T = TypeVar("T")


class BlockingPortal:
    """Runs coroutines for threads that wait for the results. Starts its loop at first use, and ends it with this instance.

    Args:
        fix: What to write instead inside an event loop.
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
