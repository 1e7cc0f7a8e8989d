"""Encoders that check their vectors: from a function, or from a service that speaks OpenAI's embeddings protocol."""

import asyncio
import contextlib
import email.utils
import inspect
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from turnwise.facts.errors import EncoderError, MissingExtra

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


_ATTEMPTS = 4
_LONGEST_PAUSE = 20.0
_FEW_TEXTS = 8
_LEAST_SECONDS = 0.001
_PROTOCOL = "Does it speak OpenAI's embeddings protocol?"
_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})


class EndpointEncoder(CheckedEncoder):
    """Encodes texts at an embeddings endpoint. Safe to share between threads. The key is in no message and no repr.

    Transient failures (408, 429, 5xx, a lost connection) are tried four times in all. The pause between is the one that the
    service asks for, at most 20 seconds.

    Args:
        url: The service's base URL, such as `https://…/v1`.
        model: The model's name.
        key: Sent as a bearer token.
        dimensions: Length of a vector; None = one text is encoded to find out, at the first use.
        batch: Most texts in one request.
        timeout: Seconds for each try. Also the total for up to eight texts with all tries and pauses, since a decision waits
            for them.
        patience: Total seconds for more than eight texts, which are encoded ahead of time.
        max_characters: Longer texts are truncated.
        languages: ISO 639-1 codes of the languages that the model knows; None = all.

    Raises:
        EncoderError: The URL or the key is not valid.
        MissingExtra: The extra `llm` is not installed.
    """

    is_local = False

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        dimensions: int | None = None,
        batch: int = 64,
        timeout: float = 10.0,
        patience: float = 90.0,
        max_characters: int = 8_000,
        languages: Collection[str] | None = None,
    ) -> None:
        super().__init__(dimensions)
        self.languages = None if languages is None else frozenset(languages)
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("An encoder behind an endpoint", "llm") from error
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
            address = parts._replace(path=parts.path.rstrip("/") + "/embeddings").geturl()
            if parts.scheme not in ("http", "https") or not httpx.URL(address).host:
                raise ValueError
        except (ValueError, httpx.InvalidURL):  # their texts show the URL, which may hold a key
            problem = "An encoder's endpoint has no http or https URL."
            raise EncoderError(problem, fix="Give one such as https://host/v1.") from None
        if key is not None and not (key.isascii() and key.isprintable() and key == key.strip() and key):
            raise EncoderError("The key of an encoder's endpoint is no header value.", fix="Look for space or line breaks.")
        self._place = f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"
        self._model, self._batch, self._max_characters = model, batch, max_characters
        self._timeout, self._patience = timeout, patience
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._address = address
        self._client = httpx.Client(headers=headers)

    def __repr__(self) -> str:
        return f"EndpointEncoder({self._place!r}, {self._model!r})"

    @property
    def fingerprint(self) -> str:
        """The URL and the model's name. A service that changes the model under the same name goes unnoticed."""
        return f"{self._place}:{self._model}:{self._max_characters}"

    def _encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Encodes the texts in batches. Empty texts become a space."""
        import numpy as np

        # Services refuse an empty text, and no JSON can be made of a lone surrogate.
        cut = [text[: self._max_characters].encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        patience = self._timeout if len(cut) <= _FEW_TEXTS else self._patience
        batches = (cut[first : first + self._batch] for first in range(0, len(cut), self._batch))
        return np.concatenate([self._encode_batch(batch, patience) for batch in batches])

    def close(self) -> None:
        self._client.close()

    def _encode_batch(self, texts: list[str], patience: float) -> "NDArray[np.float32]":
        """Sends one batch and returns its vectors. Raises EncoderError for any other answer."""
        answer = self._post({"model": self._model, "input": texts}, time.monotonic() + patience)
        try:
            found = {int(entry["index"]): entry["embedding"] for entry in json.loads(answer)["data"]}
            vectors = [found[number] for number in range(len(texts))]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            problem = f"{self._place} did not answer with an embedding for each text."
            raise EncoderError(problem, fix=_PROTOCOL) from error
        return self._checked(vectors, texts, f"{self._model} at {self._place}")

    def _post(self, body: dict[str, Any], deadline: float) -> bytes:
        """Returns the body of the answer. Retries transient failures until the deadline."""
        import httpx

        for attempt in range(1, _ATTEMPTS + 1):
            retry_after = None
            try:
                status, retry_after, content = self._try_once(body, deadline)
            except httpx.TransportError as error:
                problem = f"{self._place} cannot be reached: {type(error).__name__}."
                failure = EncoderError(problem, fix="Check the URL, and that it runs.")
                failure.__cause__ = error
            except httpx.RequestError as error:
                problem = f"{self._place} gave an answer that cannot be read: {type(error).__name__}."
                raise EncoderError(problem, fix=_PROTOCOL) from error
            else:
                if 200 <= status < 300:
                    return content
                problem = f"{self._place} refused to encode with {self._model}: status {status}."
                failure = EncoderError(problem, fix=_advice(status))
                if status not in _TRANSIENT_STATUSES:
                    break
            wait = pause(retry_after, attempt)
            if attempt == _ATTEMPTS or time.monotonic() + wait >= deadline:
                break
            time.sleep(wait)
        raise failure

    def _try_once(self, body: dict[str, Any], deadline: float) -> tuple[int, str | None, bytes]:
        """Returns status, Retry-After and content. httpx's timeouts are per chunk; the clock bounds the whole."""
        import httpx

        seconds = min(self._timeout, max(deadline - time.monotonic(), _LEAST_SECONDS))
        end = time.monotonic() + seconds
        with self._client.stream("POST", self._address, json=body, timeout=seconds) as response:
            pieces = []
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("It took too long in all.")
        return response.status_code, response.headers.get("Retry-After"), b"".join(pieces)


def pause(retry_after: str | None, attempt: int) -> float:
    """Returns the seconds to wait after an attempt (from 1): what the service asks for, else doubling from a quarter."""
    seconds = 0.25 * 2.0 ** (attempt - 1)
    if retry_after is not None:
        with contextlib.suppress(ValueError):
            date = None if retry_after.isdecimal() else email.utils.parsedate_to_datetime(retry_after)
            seconds = float(retry_after) if date is None else date.timestamp() - time.time()
    return min(max(seconds, 0.0), _LONGEST_PAUSE)


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Check the key."
    return "Check the URL and the model's name." if status in (400, 404, 405, 422) else "Try again later."
