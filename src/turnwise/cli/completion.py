"""Shell completion of option values: names from the configuration file and built-in names.

Reads only the file, because completion must be fast: imports no modules and opens no store.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from turnwise.config.settings import Settings


def flow_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the configured flows."""
    return _with_prefix(incomplete, _names_from_file(context, _flows))


def agent_roles(context: typer.Context, incomplete: str) -> list[str]:
    """Roles that configured agents require."""
    return _with_prefix(incomplete, _names_from_file(context, _roles))


def policy_names(incomplete: str) -> list[str]:
    """Names of the built-in policies."""
    from turnwise.selection.named import NAMED

    return _with_prefix(incomplete, NAMED)


def scopes(incomplete: str) -> list[str]:
    """The permissions that a key may have."""
    from typing import get_args

    from turnwise.facts.callers import Permission

    return _with_prefix(incomplete, get_args(Permission))


def _with_prefix(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names_from_file(context: typer.Context, names: "Callable[[Settings], Iterable[str]]") -> list[str]:
    """Reads names from the configuration. Returns none if the file cannot be read: completion cannot show errors."""
    from turnwise.config.settings import find_file, read_settings
    from turnwise.facts.errors import TurnwiseError

    config = context.params.get("config")
    try:
        return sorted({*names(read_settings(find_file(Path(config) if config else None)))})
    except TurnwiseError:
        return []


def _flows(settings: "Settings") -> Iterable[str]:
    cards = [entry.card for entry in settings.entries if entry.card.get("kind") == "flow"]
    return [card["name"] for card in cards if isinstance(card.get("name"), str)]


def _roles(settings: "Settings") -> Iterable[str]:
    roles = [entry.card.get("roles") for entry in settings.entries]
    return [role for each in roles if isinstance(each, list) for role in each if isinstance(role, str)]
