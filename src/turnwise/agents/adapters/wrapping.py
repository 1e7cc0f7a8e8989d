"""What is the same in every adapter when it is made: the library that has to be there, and the card."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentDefinitionError, ConfigError


def need(module: str, package: str) -> None:
    """ConfigError naming the package to install when the module is not there."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it stands in is not there either
        found = False
    if not found:
        raise ConfigError(f"The library {package} is not installed.", fix=f"Install it with: pip install {package}")


def card_of(wrapped: object, name: str | None, description: str | None, fields: Mapping[str, Any]) -> AgentCard:
    """The card of an adapter: name and description are those of what it wraps, unless others are given.

    AgentDefinitionError when there is no name at all.
    """
    own = name or getattr(wrapped, "name", None)
    if not isinstance(own, str) or not own:
        raise AgentDefinitionError(f"The {type(wrapped).__name__} has no name.", fix="Give the adapter a name.")
    about = getattr(wrapped, "description", None) if description is None else description
    return make_card({"kind": "llm", "name": own, "description": about if isinstance(about, str) else "", **fields})


def not_an_agent(wrapped: object, wanted: str) -> AgentDefinitionError:
    """The error for something that cannot be wrapped."""
    return AgentDefinitionError(f"A {type(wrapped).__name__} cannot be wrapped here.", fix=f"Give {wanted}.")
