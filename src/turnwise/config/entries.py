"""Reads the agents of a configuration file as entries: inline cards and import paths, nested or in a list."""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.config.document import kind_of
from turnwise.config.places import Document, Where
from turnwise.facts.cards import COMPOSITES, AgentCard
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.spelling import did_you_mean
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext

OWN_KEYS: Mapping[str, tuple[str, ...]] = {
    "function": ("run",),
    "llm": (
        "model", "instructions", "tools", "output", "output_key", "output_retries", "settings", "max_steps", "history",
        "result_characters", "summary_model", "names_next", "callers_tools",
    ),
    "sequential": (),
    "parallel": (),
    "loop": ("max_iterations",),
    "team": ("selector", "lead", "ends"),
    "flow": ("tasks", "agents", "strategy", "until", "side_by_side", "max_turns", "targets"),
}  # fmt: skip
"""The keys of each kind of agent, beside those of a card and `children`."""

_REQUIRED_KEYS: Mapping[str, str] = {"llm": "model", "flow": "tasks"}


class AgentEntry(NamedTuple):
    """One agent as written in the file."""

    where: Where
    """Its location; empty for the placeholder of an entry that could not be read."""
    run: str | None
    """The import path of a function or an agent. None for composites, flows and LLM agents that the file defines."""
    card: Mapping[str, Any]
    """The card's fields that the file sets, not yet validated."""
    children: tuple[str | int, ...] = ()
    """Names of agents, and positions of entries nested in this one."""
    own: Mapping[str, Any] = {}
    """The keys that only its kind has."""


def read_entries(document: Document, root: str | None) -> tuple[AgentEntry, ...]:
    """Reads all entries in the order of the file. A root given by import path comes first."""
    entries: list[AgentEntry | None] = []
    if root is not None and ":" in root:
        entries.append(AgentEntry(("root",), root, {}))
    agents = document.data.get("agents", [])
    if not isinstance(agents, list):
        document.report(("agents",), f"'agents' should be a list, but is {kind_of(agents)}.", "Write `- ` before each agent.")
        agents = []
    elif not agents and root is None:
        fix = "Write `root: module:attribute`, or a list of `agents:`."
        document.report(("agents",) if "agents" in document.data else (), "The file names no agents.", fix)
    for index, value in enumerate(agents):
        _add(document, ("agents", index), value, entries)
    return tuple(entry or AgentEntry((), None, {}) for entry in entries)


def is_placeholder(entry: AgentEntry) -> bool:
    """Whether this is the placeholder of an entry that could not be read. Its problem has been reported."""
    return not entry.where


def _add(document: Document, where: Where, value: Any, entries: list[AgentEntry | None]) -> int:
    """Adds the entry and then those nested in it. Returns its position."""
    position = len(entries)
    entries.append(None)
    if isinstance(value, str):
        entries[position] = AgentEntry(where, value, {})
    elif isinstance(value, dict):
        entries[position] = _read_inline(document, where, value, entries)
    else:
        fix = "Write module:attribute, or `name:` and `run:`."
        document.report(where, f"An agent is an import path or keys and values; this is {kind_of(value)}.", fix)
    return position


def _read_inline(
    document: Document, where: Where, value: dict[str, Any], entries: list[AgentEntry | None]
) -> AgentEntry | None:
    kind = _kind_of(value)
    own_keys = OWN_KEYS[kind]
    known = [*AgentCard.model_fields, *own_keys, "children"]
    for key in value:
        if key not in known:
            elsewhere = [other for other, keys in OWN_KEYS.items() if key in keys]
            fix = f"It belongs to agents of kind {elsewhere[0]}." if elsewhere else did_you_mean(key, known)
            document.report((*where, key), f"An agent of kind {kind!r} has no key {key!r}.", fix, AgentDefinitionError)
    if not _has_required_keys(document, where, value, kind):
        return None
    card = {key: given for key, given in value.items() if key in AgentCard.model_fields}
    if isinstance(card.get("patterns"), list):
        card["patterns"] = [{"regex": p} if isinstance(p, str) else p for p in card["patterns"]]
    children = _children(document, where, value, entries)
    return AgentEntry(where, value.get("run"), card, children, {key: value[key] for key in own_keys if key in value})


def _kind_of(value: Mapping[str, Any]) -> str:
    """The kind whose keys the entry uses. An imported agent uses the keys of a function, whatever kind its card names."""
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in OWN_KEYS or (kind == "llm" and "run" in value and "model" not in value):
        return "function"
    return kind


def _has_required_keys(document: Document, where: Where, value: dict[str, Any], kind: str) -> bool:
    name = value.get("name")
    needed = _REQUIRED_KEYS.get(kind, "children" if kind in COMPOSITES else None)
    if needed and not (isinstance(name, str) and value.get(needed) not in (None, "")):
        missing = repr(needed) if isinstance(name, str) else "'name'"
        document.report(where, f"An agent of kind {kind!r} needs {missing}.", "Add it.", AgentDefinitionError)
        return False
    if not needed and not isinstance(value.get("run"), str):
        which = f"The agent {name!r}" if isinstance(name, str) else "This agent"
        fix = "Write `run: module:attribute`, the function that answers."
        document.report((*where, "run"), f"{which} has no import path in 'run'.", fix, AgentDefinitionError)
        return False
    return True


def _children(
    document: Document, where: Where, value: dict[str, Any], entries: list[AgentEntry | None]
) -> tuple[str | int, ...]:
    given = value.get("children", [])
    if not isinstance(given, list):
        fix = "Write a list of names, import paths, or agents."
        document.report((*where, "children"), f"'children' should be a list, but is {kind_of(given)}.", fix)
        return ()
    children: list[str | int] = []
    for index, child in enumerate(given):
        if isinstance(child, str) and ":" not in child:
            children.append(child)
        else:
            children.append(_add(document, (*where, "children", index), child, entries))
    return tuple(children)


class PlacedAgent:
    """Runs as the wrapped `agent`. Its children are the agent's, followed by the added ones."""

    def __init__(self, agent: Agent, card: AgentCard, children: Sequence[Agent]) -> None:
        self.card = card
        self.children: Sequence[Agent] = (*agent.children, *children)
        self.agent = agent

    def __repr__(self) -> str:
        return f"PlacedAgent({self.agent!r})"

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        return self.agent.run(context)

    @property
    def delegates_to(self) -> Sequence[str] | None:
        """Names of the agents that it runs within its own turn; None if the wrapped agent does not declare any."""
        named: Sequence[str] | None = getattr(self.agent, "delegates_to", None)
        return named

    def check(self, tree: AgentTree) -> None:
        """Runs the wrapped agent's check of the tree, if it has one."""
        check = getattr(self.agent, "check", None)
        if check is not None:
            check(tree)

    async def close(self) -> None:
        """Closes the wrapped agent, if it can be closed."""
        close = getattr(self.agent, "close", None)
        if inspect.iscoroutinefunction(close):
            await close()
