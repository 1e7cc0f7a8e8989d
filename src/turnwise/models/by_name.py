"""Models from specs: `model_of` turns `provider:name`, an endpoint or a list into a model with retries and fallbacks.

`open_answer` reads a model's answer and ends the call when the reader stops early.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from turnwise.models.provider import ProviderModel
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest


class FallbackModel:
    """Asks its models in order until one answers. It goes on to the next when one is unavailable or refuses.

    After the first piece it never switches, since the reader must not get two answers in one. The error is then
    ModelUnavailable, and the whole call may be repeated. When all fail, the error names each failure. It is ModelUnavailable if
    any of them was, else ModelRefused.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    def __repr__(self) -> str:
        return f"FallbackModel({list(self._models)!r})"

    @property
    def name(self) -> str:
        """The names of all models, in order. `usage.model` of a reply names the one that answered."""
        return ", ".join(model.name for model in self._models)

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        """Answers with the first model that is available. Raises the error once an answer has begun."""
        failures: list[ModelUnavailable | ModelRefused] = []
        for model in self._models:
            has_output = False
            try:
                async with open_answer(model, request, stream=stream) as answer:
                    async for piece in answer:
                        has_output = True
                        yield piece
                return
            except (ModelUnavailable, ModelRefused) as error:
                if has_output:
                    raise _broken_off(error) from error
                failures.append(error)
        raise _all_failed(failures) from failures[-1]


def _broken_off(error: ModelError) -> ModelUnavailable:
    if isinstance(error, ModelUnavailable):
        return error
    return ModelUnavailable(error.problem, fix=error.fix)


def _all_failed(failures: Sequence[ModelUnavailable | ModelRefused]) -> ModelError:
    """Returns the error when no model answered, with all their problems."""
    problem = "No model answered. " + " ".join(error.problem for error in failures)
    fix = " ".join(dict.fromkeys(error.fix for error in failures if error.fix))
    transient = [error for error in failures if isinstance(error, ModelUnavailable)]
    if not transient:
        return ModelRefused(problem, fix=fix)
    waits = [error.retry_after for error in transient if error.retry_after is not None]
    return ModelUnavailable(problem, fix=fix, retry_after=min(waits, default=None))


class RetryingModel:
    """Retries a model that is unavailable.

    After the first piece it never retries, since the reader must not get two answers in one.

    Args:
        model: The model to call.
        attempts: Most calls in all.
        first: Upper bound of the random wait before the first retry, in seconds; doubled for each further one.
        longest: Upper bound of any such wait.
        patience: Longest wait that a provider may ask for. When it asks for more, the error is raised at once.
        source: The source of randomness, for tests.
        sleep: Waits, for tests.
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
        """Answers, and tries again after transient errors as long as no output has come."""
        for attempt in range(1, self._attempts + 1):
            has_output = False
            try:
                async with open_answer(self._model, request, stream=stream) as answer:
                    async for piece in answer:
                        has_output = True
                        yield piece
                return
            except ModelUnavailable as error:
                pause = self._pause(attempt, error.retry_after)
                if has_output or attempt == self._attempts or pause is None:
                    raise
            await self._sleep(pause)

    def _pause(self, attempt: int, requested: float | None) -> float | None:
        """Returns the seconds to wait after an attempt, or None when the provider asks for more than `patience`."""
        if requested is not None:
            return requested + self._source.uniform(0, self._first) if requested <= self._patience else None
        return self._source.uniform(0, min(self._longest, self._first * 2.0 ** (attempt - 1)))


@dataclass(frozen=True)
class ModelEndpoint:
    """A model at a base URL that speaks OpenAI's chat completions, such as `https://host/v1`. The key is in no repr."""

    model: str
    url: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:  # the URL is not shown: it may hold a key
            raise ConfigError(
                f"The endpoint of model {self.model!r} has no http or https URL.", fix="Give one: https://host/v1"
            )
        if not self.model:
            raise ConfigError(f"The endpoint at {parts.hostname} names no model.", fix="Give the name that it goes by there.")
        if not (self.key.isascii() and self.key.isprintable() and self.key == self.key.strip()):
            raise ConfigError(f"The key of the endpoint at {parts.hostname} is no header value.", fix="Look for line breaks.")


Spec = str | ModelEndpoint | Model | Sequence["str | ModelEndpoint | Model"]


def model_of(spec: Spec) -> Model:
    """Returns the model of a spec. Nothing is connected before the first call.

    Args:
        spec: One of:
            - `provider:name`, such as `openai:gpt-5`, `anthropic:claude-sonnet-5-5` or `google:gemini-3-pro`, with any provider
              of pydantic-ai. The key comes from the environment. If OPENAI_BASE_URL is set to another host than OpenAI's,
              `openai:` means chat completions there.
            - a ModelEndpoint.
            - a list of specs: the first that answers.
            - a Model, used as it is. All others are retried when they are unavailable.

    Raises:
        ConfigError: The spec is none of these, or the provider is unknown.
        MissingExtra: The extra `llm` is not installed.
    """
    match spec:
        case str():
            return RetryingModel(ProviderModel(spec))
        case ModelEndpoint():
            return RetryingModel(ProviderModel(spec.model, url=spec.url, key=spec.key))
        case list() | tuple():
            models = [model_of(one) for one in spec]
            if not models:
                raise ConfigError("An empty list names no model.", fix="Name one, such as anthropic:claude-sonnet-5-5.")
            return models[0] if len(models) == 1 else FallbackModel(models)
    return _checked_model(spec)


def _checked_model(spec: Any) -> Model:
    if callable(getattr(spec, "answer", None)) and isinstance(getattr(spec, "name", None), str):
        model: Model = spec
        return model
    fix = "Give provider:name, a ModelEndpoint, a Model, or a list of them."
    raise ConfigError(f"A {type(spec).__name__} is no model.", fix=fix)


Answer = AsyncIterator[ModelPiece | ModelReply]


@asynccontextmanager
async def open_answer(model: Model, request: ModelRequest, *, stream: bool) -> AsyncIterator[Answer]:
    """Opens a model's answer for the duration of the block. On exit the call has ended, however much of it was read."""
    answer = model.answer(request, stream=stream)
    try:
        yield answer
    finally:
        close = getattr(answer, "aclose", None)  # only generators have one; other iterators hold no open call
        if close is not None:
            await close()
