"""Adapters when they are made: what they need, and their cards."""

import importlib.util
from types import SimpleNamespace

import pytest

from turnwise.agents.adapters.google_adk import GoogleAdkAgent
from turnwise.agents.adapters.langgraph import LangGraphAgent
from turnwise.agents.adapters.openai_agents import OpenAiAgent
from turnwise.agents.adapters.wrapping import card_of, need
from turnwise.facts.errors import AgentDefinitionError, ConfigError


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        (OpenAiAgent, "agents", "openai-agents"),
        (LangGraphAgent, "langgraph", "langgraph"),
        (GoogleAdkAgent, "google.adk", "google-adk"),
    ],
)
def test_a_library_that_is_missing_is_named(adapter: type, module: str, package: str) -> None:
    try:
        if importlib.util.find_spec(module) is not None:
            pytest.skip(f"{package} is installed")
    except ModuleNotFoundError:
        pass
    with pytest.raises(ConfigError, match=rf"pip install {package}$"):
        adapter(object())


def test_a_module_within_one_that_is_missing_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"pip install nothing$"):
        need("not_there.at_all", "nothing")
    need("json.decoder", "json")


def test_a_card_takes_name_and_description_from_what_is_wrapped_unless_others_are_given() -> None:
    wrapped = SimpleNamespace(name="guide", description="Hours.")
    assert card_of(wrapped, None, None, {}).description == "Hours."
    own = card_of(wrapped, "front", "", {"kind": "remote", "routable": False})
    assert (own.name, own.description, own.kind, own.routable) == ("front", "", "remote", False)
    with pytest.raises(AgentDefinitionError, match="colour"):
        card_of(wrapped, None, None, {"colour": "red"})
    with pytest.raises(AgentDefinitionError, match="has no name"):
        card_of(SimpleNamespace(name=None), None, None, {})
