"""What is the same in every adapter when it is made: the library that has to be there, and the card."""

import importlib.util
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentDefinitionError, ConfigError, MissingExtra


def need(module: str, package: str, extra: str, minimum: tuple[int, ...]) -> None:
    """MissingExtra when the module is not there, ConfigError when its package is older than `minimum`.

    pip does not refuse an old version that was there before, and an old one fails somewhere inside of a turn.
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it stands in is not there either
        found = False
    if not found:
        raise MissingExtra(f"An agent of {package}", extra)
    try:
        installed = version(package)
    except PackageNotFoundError:  # a checkout on the path, of a version that nobody says
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(minimum)])
    if numbers < minimum:
        wanted = ".".join(map(str, minimum))
        raise ConfigError(
            f"{package} {installed} is installed; its agents need {wanted} or newer.",
            fix=f"Install it with: pip install 'turnwise[{extra}]'",
        )


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
