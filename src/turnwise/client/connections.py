"""HTTP clients, one for each event loop: a connection is of no use in another."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_Kept = tuple["httpx.AsyncClient", AsyncGenerator[None, None]]


class Connections:
    """Made at their first use; each is closed when its loop shuts down, if nobody did before. heard: whether anybody ever
    answered.
    """

    heard = False

    def __init__(self, make: "Callable[[], httpx.AsyncClient]") -> None:
        self._make, self._lock = make, threading.Lock()
        self._kept: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = weakref.WeakKeyDictionary()

    async def here(self) -> "httpx.AsyncClient":
        """That of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            http = self._make()
            keeper = self._keeping(loop, http)
            with self._lock:
                self._kept[loop] = kept = (http, keeper)
            await anext(keeper)
        return kept[0]

    async def close(self) -> None:
        """Closes that of the running loop. Idempotent; the next use makes another."""
        if kept := self._taken(asyncio.get_running_loop()):
            await kept[1].aclose()

    async def _keeping(self, loop: asyncio.AbstractEventLoop, http: "httpx.AsyncClient") -> AsyncGenerator[None, None]:
        # A loop that shuts down closes its unfinished generators: that is the last moment in which connections can be closed.
        try:
            yield
        finally:
            self._taken(loop)
            await http.aclose()

    def _taken(self, loop: asyncio.AbstractEventLoop) -> _Kept | None:
        with self._lock:
            return self._kept.pop(loop, None)
