"""What names a model, and what does not."""

import sys

import pytest

from turnwise.facts.errors import ConfigError, MissingExtra
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.testing.models import ScriptedModel

KEY = "test-key-0123456789"


@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-sonnet-5-5", "google:gemini-3-pro", "ollama:qwen3:8b"])
def test_a_provider_and_a_name(name: str) -> None:
    assert model_of(name).name == name


def test_an_endpoint_goes_by_its_host() -> None:
    assert model_of(ModelEndpoint("small", "https://models.example:8080/v1", KEY)).name == "models.example:small"


def test_a_list_means_all_in_order() -> None:
    scripted = ScriptedModel(name="scripted:model")
    named = model_of(["openai:gpt-5", scripted, ModelEndpoint("small", "http://localhost/v1")])
    assert named.name == "openai:gpt-5, scripted:model, localhost:small"


def test_a_model_is_taken_as_it_is() -> None:
    model = ScriptedModel()
    assert model_of(model) is model
    assert model_of([model]) is model


@pytest.mark.parametrize("name", ["gpt-5", "nobody:gpt-5", "openai:", ":x", "", "test"])
def test_who_is_not_known_is_told_who_is(name: str) -> None:
    with pytest.raises(ConfigError, match=r"anthropic, .*openai"):
        model_of(name)


@pytest.mark.parametrize("spec", [[], ()])
def test_nothing_is_no_model(spec: list[str]) -> None:
    with pytest.raises(ConfigError, match="empty list"):
        model_of(spec)


def test_something_else_is_no_model() -> None:
    with pytest.raises(ConfigError, match="A int is no model"):
        model_of(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["", "models.example/v1", "ftp://models.example", "http://", "http://h:port/v1", f"//{KEY}@h"])
def test_an_endpoint_needs_a_url(url: str) -> None:
    with pytest.raises(ConfigError, match="no http or https URL") as caught:
        ModelEndpoint("small", url)
    assert KEY not in str(caught.value)


def test_an_endpoint_needs_a_name_and_a_key_that_is_one() -> None:
    with pytest.raises(ConfigError, match="names no model"):
        ModelEndpoint("", "http://localhost/v1")
    with pytest.raises(ConfigError, match="no header value"):
        ModelEndpoint("small", "http://localhost/v1", "two\nlines")


def test_no_repr_shows_a_key() -> None:
    endpoint = ModelEndpoint("small", "http://localhost/v1", KEY)
    assert KEY not in repr(endpoint) + repr(model_of(endpoint)) + repr(model_of([endpoint, "openai:gpt-5"]))


def test_the_library_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another's modules, not ours: without the extra, the error names it."""
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(MissingExtra, match=r"\[llm\]"):
        model_of("openai:gpt-5")
