"""Which model somebody means."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from turnwise.models.provider import ProviderModel
from turnwise.models.reply import open_answer
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest


class FallbackModel:
    """The answer of the first of `models` that gives one; the next is asked when one is unavailable or refuses.

    After a piece was given out no other is asked, since whoever reads must not see two answers in one: then the error is
    ModelUnavailable, and the whole call may be made again. When none answers, the error names what each said; it is
    ModelUnavailable if that of any was.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    def __repr__(self) -> str:
        return f"FallbackModel({list(self._models)!r})"

    @property
    def name(self) -> str:
        """The names of all, in order; `usage.model` of a reply says who answered."""
        return ", ".join(model.name for model in self._models)

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        failures: list[ModelUnavailable | ModelRefused] = []
        for model in self._models:
            begun = False
            try:
                async with open_answer(model, request, stream=stream) as answer:
                    async for piece in answer:
                        begun = True
                        yield piece
                return
            except (ModelUnavailable, ModelRefused) as error:
                if begun:
                    raise _broken_off(error) from error
                failures.append(error)
        raise _all_failed(failures) from failures[-1]


def _broken_off(error: ModelError) -> ModelUnavailable:
    if isinstance(error, ModelUnavailable):
        return error
    return ModelUnavailable(error.problem, fix=error.fix)


def _all_failed(failures: Sequence[ModelUnavailable | ModelRefused]) -> ModelError:
    problem = "No model answered. " + " ".join(error.problem for error in failures)
    fix = " ".join(dict.fromkeys(error.fix for error in failures if error.fix))
    passing = [error for error in failures if isinstance(error, ModelUnavailable)]
    if not passing:
        return ModelRefused(problem, fix=fix)
    waits = [error.retry_after for error in passing if error.retry_after is not None]
    return ModelUnavailable(problem, fix=fix, retry_after=min(waits, default=None))


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
                async with open_answer(self._model, request, stream=stream) as answer:
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


@dataclass(frozen=True)
class ModelEndpoint:
    """A model behind a base URL that speaks OpenAI's chat completions, such as `https://host/v1`. The key is in no repr."""

    model: str
    url: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound:  # what was given is not shown: it may hold a key
            raise ConfigError(
                f"The endpoint of model {self.model!r} has no http or https URL.", fix="Give one: https://host/v1"
            )
        if not self.model:
            raise ConfigError(f"The endpoint at {parts.hostname} names no model.", fix="Give the name that it goes by there.")
        if not (self.key.isascii() and self.key.isprintable() and self.key == self.key.strip()):
            raise ConfigError(f"The key of the endpoint at {parts.hostname} is no header value.", fix="Look for line breaks.")


Spec = str | ModelEndpoint | Model | Sequence["str | ModelEndpoint | Model"]


def model_of(spec: Spec) -> Model:
    """The model that `spec` means.

    `provider:name`, as in `openai:gpt-5`, `anthropic:claude-sonnet-5-5`, `google:gemini-3-pro`, with any provider that
    pydantic-ai knows; its key comes from the environment. With an OPENAI_BASE_URL that is not OpenAI's, `openai:` means chat
    completions there. A ModelEndpoint. A list: the first that answers. A Model is taken as it is; all others are asked again
    when they fail for the moment. Nothing is connected before the first call.

    ConfigError for what is none of these, or a provider that nobody knows; MissingExtra without the extra `llm`.
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


def _checked_model(given: Any) -> Model:
    if callable(getattr(given, "answer", None)) and isinstance(getattr(given, "name", None), str):
        model: Model = given
        return model
    fix = "Give provider:name, a ModelEndpoint, a Model, or a list of them."
    raise ConfigError(f"A {type(given).__name__} is no model.", fix=fix)
