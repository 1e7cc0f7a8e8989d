"""Adapters when they are made: what they need, and their cards."""

import importlib.util
from types import SimpleNamespace

import pytest

from turnwise.agents.adapters.adapter import card_of, require_library
from turnwise.agents.adapters.google_adk import GoogleAdkAgent
from turnwise.agents.adapters.langgraph import LangGraphAgent
from turnwise.agents.adapters.openai_agents import OpenAiAgent
from turnwise.facts.errors import AgentDefinitionError, ConfigError, MissingExtra


@pytest.mark.parametrize(
    ("adapter", "module", "extra"),
    [
        (OpenAiAgent, "agents", "openai-agents"),
        (LangGraphAgent, "langgraph", "langgraph"),
        (GoogleAdkAgent, "google.adk", "adk"),
    ],
)
def test_a_library_that_is_missing_is_named(adapter: type, module: str, extra: str) -> None:
    try:
        if importlib.util.find_spec(module) is not None:
            pytest.skip(f"{module} is installed")
    except ModuleNotFoundError:
        pass
    with pytest.raises(MissingExtra, match=rf"pip install .*\[{extra}\]"):
        adapter(object())


def test_a_module_within_one_that_is_missing_is_missing() -> None:
    with pytest.raises(MissingExtra, match=r"pip install .*\[extra\]"):
        require_library("not_there.at_all", "nothing", "extra", (1,))
    require_library("json.decoder", "json", "extra", (1,))


@pytest.mark.parametrize("minimum", [(99,), (99, 1), (9, 999, 0)])
def test_a_library_that_is_too_old_is_named_with_its_version(minimum: tuple[int, ...]) -> None:
    """Inside of a turn it would fail with an error that names nothing."""
    wanted = ".".join(map(str, minimum))
    with pytest.raises(
        ConfigError,
        match=rf"^pytest [\d.]+ is installed; its agents need {wanted} or newer\. .*pip install 'pytest>={wanted}'$",
    ):
        require_library("pytest", "pytest", "extra", minimum)
    require_library("pytest", "pytest", "extra", (1, 99))


def test_a_card_takes_name_and_description_from_what_is_wrapped_unless_others_are_given() -> None:
    wrapped = SimpleNamespace(name="guide", description="Hours.")
    assert card_of(wrapped, None, None, {}).description == "Hours."
    own = card_of(wrapped, "front", "", {"kind": "remote", "routable": False})
    assert (own.name, own.description, own.kind, own.routable) == ("front", "", "remote", False)
    with pytest.raises(AgentDefinitionError, match="colour"):
        card_of(wrapped, None, None, {"colour": "red"})
    with pytest.raises(AgentDefinitionError, match="has no name"):
        card_of(SimpleNamespace(name=None), None, None, {})
