"""The client's sync door, for programs without an event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.facts.errors import ConfigError

if TYPE_CHECKING:
    from turnwise.runner.blocking_portal import BlockingPortal

T = TypeVar("T")


class Sync:
    """Opened at its first use, since most have a loop and need none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._door: BlockingPortal | None = None

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. ConfigError inside a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._open().run(work)
        work.close()
        raise ConfigError("run_sync was called inside an event loop.", fix="Use `await` or `async for` there.")

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Each of them as it comes. Whoever leaves the loop early ends the reading."""
        try:
            while True:
                try:
                    yield self.result(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self.result(_ended(items))

    def _open(self) -> "BlockingPortal":
        from turnwise.runner.blocking_portal import BlockingPortal

        with self._lock:
            if self._door is None:
                self._door = BlockingPortal()
            return self._door


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _ended(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
