"""The memory of an app's users: searches with vectors, and encodes what was remembered, after the turn."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from turnwise.facts.errors import StoreError, TurnwiseError
from turnwise.facts.memory import MemoryConfig
from turnwise.ports.encoder import Encoder
from turnwise.ports.memory import QUERY_CHARACTERS, MemoryStore, QueryVector
from turnwise.ports.stores import SessionStore
from turnwise.selection.vectors import encode_checked

BATCH = 32
"""The texts that are encoded at once, so that other work is not held up."""
CLOSE_SECONDS = 5.0

log = logging.getLogger("turnwise.runner")


class MemoryService:
    """The memory of an app.

    Args:
        make_encoder: Creates the encoder; called when a text is first compared by meaning. None compares by words only.
    """

    def __init__(
        self, store: SessionStore, app: str, config: MemoryConfig | None, make_encoder: Callable[[], Encoder] | None
    ) -> None:
        self.config = config or MemoryConfig(entities="off", ingest="never")
        self._store, self._app, self._make_encoder = store, app, make_encoder
        self._encoder: Encoder | None = None
        self._tasks: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[None]] = {}
        self._again: set[tuple[asyncio.AbstractEventLoop, str]] = set()

    @property
    def store(self) -> MemoryStore:
        """The store of entries. Raises StoreError if the session store has none."""
        memory: MemoryStore | None = getattr(self._store, "memory", None)
        if memory is None:
            raise StoreError("This session store has no memory.", fix="Use SqlSessionStore, or a store with `memory`.")
        return memory

    async def vector(self, query: str) -> QueryVector | None:
        """Returns a query as a vector; None when it cannot be encoded, and words have to do."""
        encoder = self._find_encoder()
        if encoder is None or not query.strip():
            return None
        try:
            rows = await asyncio.to_thread(encode_checked, [query[:QUERY_CHARACTERS]], encoder)
        except TurnwiseError as problem:
            log.warning("A query of the memory could not be encoded: %s", problem.code)
            return None
        return QueryVector(encoder.fingerprint, rows[0])

    def encode_later(self, user: str) -> None:
        """Encodes the new entries of a user in the background. Until then, words find them."""
        key = (asyncio.get_running_loop(), user)
        if key in self._tasks:
            self._again.add(key)
            return
        task = key[0].create_task(self._encode(user), context=Context())
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._done(key))

    async def idle(self) -> None:
        """Waits until the entries that were to be encoded in this event loop are encoded."""
        while tasks := self._of_loop():
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Waits a few seconds for encoding. What is left is encoded after a later turn or search."""
        self._again.clear()
        if tasks := self._of_loop():
            _, running = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
            for task in running:
                task.cancel()

    def _of_loop(self) -> list[asyncio.Task[None]]:
        return [task for (loop, _), task in self._tasks.items() if loop is asyncio.get_running_loop()]

    def _done(self, key: tuple[asyncio.AbstractEventLoop, str]) -> None:
        del self._tasks[key]
        if key in self._again:
            self._again.discard(key)
            self.encode_later(key[1])

    def _find_encoder(self) -> Encoder | None:
        if self._encoder is None and self._make_encoder is not None:
            self._encoder = self._make_encoder()
        return self._encoder

    async def _encode(self, user: str) -> None:
        encoder = self._find_encoder()
        if encoder is None:
            return
        try:
            while texts := await self.store.unencoded(self._app, user, encoder.fingerprint, limit=BATCH):
                vectors = await asyncio.to_thread(encode_checked, [each.text for each in texts], encoder)
                numbers = [each.number for each in texts]
                await self.store.put_vectors(self._app, user, encoder.fingerprint, numbers, vectors)
        except TurnwiseError as problem:
            log.warning("Entries of a memory could not be encoded: %s", problem.code)
        except Exception:
            log.exception("Entries of a memory could not be encoded.")
