"""Which model somebody means."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError
from turnwise.models.fallback import FallbackModel
from turnwise.models.provider import ProviderModel
from turnwise.models.retrying import RetryingModel
from turnwise.ports.model import Model


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
    return _as_it_is(spec)


def _as_it_is(given: Any) -> Model:
    if callable(getattr(given, "answer", None)) and isinstance(getattr(given, "name", None), str):
        model: Model = given
        return model
    fix = "Give provider:name, a ModelEndpoint, a Model, or a list of them."
    raise ConfigError(f"A {type(given).__name__} is no model.", fix=fix)
