"""An event loop without chance: time passes only when nothing else is left to do, and a store's threads are waited for."""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

ANSWER_SECONDS = 60.0
"""How long, in real time, a database may take for one call."""


class _Clock(selectors.DefaultSelector):
    """Instead of waiting for a timer, it says that the time has come."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("Somebody waits for what will never happen: there is no timer left.")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The same program does the same on it every time, whatever the machine is doing besides."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)
        self._home = threading.get_ident()
        self._from_threads: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()

    def time(self) -> float:
        return self._clock.now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle | None:
        if threading.get_ident() == self._home:
            return super().call_soon_threadsafe(callback, *args, context=context)
        # A thread may come at any moment; it is heard by `finish` alone, which waits for it.
        self._from_threads.put((callback, args))
        return None

    def finish(self, call: Coroutine[Any, Any, T]) -> T:
        """Does a call to a store, which waits for threads only, before anything else happens."""
        try:
            while True:
                future = call.send(None)
                while not future.done():
                    callback, args = self._from_threads.get(timeout=ANSWER_SECONDS)
                    callback(*args)
        except StopIteration as stop:
            result: T = stop.value
            return result


class LoopIssuer:
    """Ids that tell their process, and the loop's time."""

    def __init__(self, process: str) -> None:
        self._process, self._count = process, 0

    def new_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._process}-{self._count:06}"

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())
