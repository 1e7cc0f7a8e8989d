"""A function of the user's own as an encoder."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from turnwise.facts.errors import EncoderError
from turnwise.models.encoders.rows import AskingEncoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors = Any
"""A table with a row a text: an array, or lists of numbers."""


class CallableEncoder(AskingEncoder):
    """An encoder that calls `function` with a list of texts. As safe to share between threads as the function is.

    The function may be sync or async. An async one always runs on one event loop, in a thread of the encoder's own, so it
    may keep a client. `fingerprint` must change whenever the function would give other vectors. `dimensions` None: one
    text is encoded to find out, the first time somebody asks. `is_local` False: whoever decides calls it in a thread.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Vectors] | Callable[[list[str]], Awaitable[Vectors]],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        is_local: bool = False,
    ) -> None:
        super().__init__(dimensions)
        self._function = function
        # An object may have an async __call__.
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
        self._fingerprint = fingerprint
        self.is_local = is_local
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"CallableEncoder({self._fingerprint!r})"

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def _asked(self, texts: list[str]) -> "NDArray[np.float32]":
        name = f"The encoder's function {self._name()}"
        try:
            answer = self._call(texts)
        except Exception as error:
            raise EncoderError(f"{name} raised {type(error).__name__}.") from error
        return self._checked(answer, texts, name)

    def _call(self, texts: list[str]) -> Vectors:
        if not self._is_async:
            return self._function(texts)
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=[self._loop], name="turnwise-encoder", daemon=True).start()
            answer = asyncio.run_coroutine_threadsafe(self._await(texts), self._loop)
        return answer.result()

    async def _await(self, texts: list[str]) -> Vectors:
        return await cast(Awaitable[Vectors], self._function(texts))

    def _name(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__qualname__)

    def close(self) -> None:
        """Ends the thread of an async function; who still waits for it gets EncoderError. The next `encode` starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()
