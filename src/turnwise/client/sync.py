"""Runs the client's coroutines in programs without an event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.facts.errors import ConfigError

if TYPE_CHECKING:
    from turnwise.runner.blocking_portal import BlockingPortal

T = TypeVar("T")


class Sync:
    """A blocking portal that is opened at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the coroutine's result. Raises ConfigError inside a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._open().run(work)
        work.close()
        raise ConfigError("run_sync was called inside an event loop.", fix="Use `await` or `async for` there.")

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yields the items. Closing the iterator closes the stream."""
        try:
            while True:
                try:
                    yield self.result(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self.result(_close(items))

    def _open(self) -> "BlockingPortal":
        from turnwise.runner.blocking_portal import BlockingPortal

        with self._lock:
            if self._portal is None:
                self._portal = BlockingPortal()
            return self._portal


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
