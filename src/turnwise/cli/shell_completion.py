"""Shell completion of option values: names from the configuration file and built-in names.

Reads only the file, because completion must be fast: imports no modules and opens no store.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer


def flow_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the configured flows."""
    return _with_prefix(incomplete, _names_from_file(context, _flows))


def agent_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names of agents in the configuration file."""
    return _with_prefix(incomplete, _names_from_file(context, lambda agent: [agent.get("name")]))


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


def _names_from_file(context: typer.Context, names: "Callable[[dict[str, Any]], Iterable[Any]]") -> list[str]:
    """Reads names from the configured agents. Returns none if the file cannot be read: completion cannot show errors."""
    from turnwise.config.settings import find_file
    from turnwise.config.yaml_reader import read_document
    from turnwise.facts.errors import TurnwiseError

    config = context.params.get("config")
    try:
        document = read_document(find_file(Path(config) if config else None))
    except TurnwiseError:
        return []
    found = (name for agent in _agents(document.data.get("agents")) for name in names(agent))
    return sorted({name for name in found if isinstance(name, str)})


def _agents(written: Any) -> "Iterator[dict[str, Any]]":
    """The agents of a list, and those nested in them."""
    for agent in written if isinstance(written, list) else ():
        if isinstance(agent, dict):
            yield agent
            yield from _agents(agent.get("children"))


def _flows(agent: "dict[str, Any]") -> Iterable[Any]:
    return [agent.get("name")] if agent.get("kind") == "flow" else []


def _roles(agent: "dict[str, Any]") -> Iterable[Any]:
    roles = agent.get("roles")
    return roles if isinstance(roles, list) else []
