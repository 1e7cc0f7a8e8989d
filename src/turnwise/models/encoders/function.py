"""Encoders made from a function, and the base class of encoders that check their vectors."""

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from turnwise.facts.errors import EncoderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CheckedEncoder(ABC):
    """Base of encoders that call other code. The first answer fixes the vector length, unless it is given; all others must
    match.
    """

    def __init__(self, dimensions: int | None) -> None:
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            self.encode(["dimensions"])
        return cast(int, self._dimensions)

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row per text, in order, normalized to length 1. EncoderError when the call fails or the answer has a
        wrong shape.
        """
        import numpy as np

        return self._encode(list(texts)) if texts else np.empty((0, self.dimensions), np.float32)

    @abstractmethod
    def _encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Returns the checked rows of at least one text."""

    def _checked(self, answer: Any, texts: list[str], who: str) -> "NDArray[np.float32]":
        rows = checked_vectors(answer, count=len(texts), dimensions=self._dimensions, who=who)
        self._dimensions = rows.shape[1]
        return rows


def checked_vectors(answer: Any, *, count: int, dimensions: int | None, who: str) -> "NDArray[np.float32]":
    """Returns `answer` as `count` rows of length 1, with `dimensions` columns unless that is None.

    A row of zeros says nothing about its text and becomes the row of equal numbers. EncoderError names `who` when the answer is
    not a table of finite numbers of that shape.
    """
    import numpy as np

    fix = f"It must give {count} row(s) of {dimensions or 'equally many'} finite numbers, one row a text."
    try:
        rows = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EncoderError(f"{who} gave something else than a table of numbers.", fix=fix) from error
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] == 0 or dimensions not in (None, rows.shape[1]):
        raise EncoderError(f"{who} gave vectors of the shape {rows.shape}.", fix=fix)
    if not np.isfinite(rows).all():
        raise EncoderError(f"{who} gave a number that is not finite.", fix=fix)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.where(largest == 0, 1.0, rows / np.where(largest == 0, 1.0, largest))
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


Vectors = Any
"""A table with one row per text: an array, or lists of numbers."""


class CallableEncoder(CheckedEncoder):
    """Encodes texts with a function. As safe to share between threads as the function is.

    Args:
        function: Takes a list of texts and returns a vector for each. An async function always runs on one event loop, in a
            thread of the encoder, so it may keep a client.
        fingerprint: Must change whenever the function would return other vectors.
        dimensions: Length of a vector; None = one text is encoded to find out, at the first use.
        is_local: False: decisions call it in a thread.
        languages: ISO 639-1 codes of the languages that it knows; None = all.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Vectors] | Callable[[list[str]], Awaitable[Vectors]],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        is_local: bool = False,
        languages: Collection[str] | None = None,
    ) -> None:
        super().__init__(dimensions)
        self.languages = None if languages is None else frozenset(languages)
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

    def _encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Calls the function and checks its vectors. Raises EncoderError."""
        name = f"The encoder's function {self._name()}"
        try:
            answer = self._call(texts)
        except Exception as error:
            raise EncoderError(f"{name} raised {type(error).__name__}.") from error
        return self._checked(answer, texts, name)

    def _call(self, texts: list[str]) -> Vectors:
        """Returns what the function gives; an async one runs in a background event loop."""
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
        """Ends the thread of an async function. Pending calls get EncoderError. The next `encode` starts a new thread."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the event loop in this thread until it is stopped, then cancels what is left."""
    try:
        loop.run_forever()
    finally:
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()
