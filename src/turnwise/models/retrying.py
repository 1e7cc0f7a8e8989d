"""Asking a model again that has no time just now."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from turnwise.facts.errors import ModelUnavailable
from turnwise.models.reading import reading
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest


class RetryingModel:
    """Asks up to `attempts` times in all while the model is unavailable.

    Before the nth new attempt it waits a random time up to `first` seconds, doubled each time, never longer than `longest`;
    where the provider says how long, that long and up to `first` more. When that is longer than `patience` seconds, the error
    is raised at once. After a piece was given out nothing is asked again: whoever reads must not see two answers in one.
    `source` of chance and `sleep` are for tests.
    """

    def __init__(
        self,
        model: Model,
        *,
        attempts: int = 4,
        first: float = 0.5,
        longest: float = 8.0,
        patience: float = 30.0,
        source: random.Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._model, self._attempts = model, attempts
        self._first, self._longest, self._patience = first, longest, patience
        self._source, self._sleep = source or random.Random(), sleep

    def __repr__(self) -> str:
        return f"RetryingModel({self._model!r})"

    @property
    def name(self) -> str:
        return self._model.name

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        for attempt in range(1, self._attempts + 1):
            begun = False
            try:
                async with reading(self._model, request, stream=stream) as answer:
                    async for piece in answer:
                        begun = True
                        yield piece
                return
            except ModelUnavailable as error:
                pause = self._pause(attempt, error.retry_after)
                if begun or attempt == self._attempts or pause is None:
                    raise
            await self._sleep(pause)

    def _pause(self, attempt: int, asked: float | None) -> float | None:
        """Seconds to wait after the `attempt`th time; None when that is too long."""
        if asked is not None:
            return asked + self._source.uniform(0, self._first) if asked <= self._patience else None
        return self._source.uniform(0, min(self._longest, self._first * 2.0 ** (attempt - 1)))
