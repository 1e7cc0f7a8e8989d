"""The agents of a configuration file as a flat list of entries, and agents of code with the card of an entry."""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.config.agent_section import AgentSection, FunctionSection
from turnwise.config.document import Document, Where
from turnwise.config.settings import Settings
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


class AgentEntry(NamedTuple):
    """One agent of the file."""

    where: Where
    run: str | None
    """The import path of a function or an agent. None for agents that the file defines."""
    card: Mapping[str, Any]
    """The card's fields that the file sets."""
    children: tuple[str | int, ...] = ()
    """Names of agents, and positions of entries nested in this one."""
    section: AgentSection | None = None
    """All its keys. None for an import path alone, and for an invalid entry."""

    @property
    def is_valid(self) -> bool:
        """False for an entry that could not be read. Its problem has been reported; its card is empty but for its names."""
        return self.run is not None or self.section is not None


def list_entries(settings: Settings) -> tuple[AgentEntry, ...]:
    """Lists all entries in the order of the file. A root given by import path comes first."""
    entries: list[AgentEntry] = []
    root = settings.file.root
    if root is not None and ":" in root:
        entries.append(AgentEntry(("root",), root, {}))
    for index, item in enumerate(settings.file.agents):
        _add(settings.written, ("agents", index), item, entries)
    return tuple(entries)


def _add(written: Document, where: Where, item: str | AgentSection | None, entries: list[AgentEntry]) -> int:
    """Adds the entry and then those nested in it. Returns its position."""
    position = len(entries)
    if item is None:
        names = {key: written.value((*where, key)) for key in ("name", "parent")}
        entries.append(AgentEntry(where, None, {key: name for key, name in names.items() if isinstance(name, str)}))
        return position
    if isinstance(item, str):
        entries.append(AgentEntry(where, item, {}))
        return position
    card = item.model_dump(mode="json", include={*AgentCard.model_fields}, exclude_unset=True)
    entry = AgentEntry(where, item.run if isinstance(item, FunctionSection) else None, card, (), item)
    entries.append(entry)
    children: list[str | int] = []
    for index, child in enumerate(item.children):
        is_name = isinstance(child, str) and ":" not in child
        children.append(child if is_name else _add(written, (*where, "children", index), child, entries))
    entries[position] = entry._replace(children=tuple(children))
    return position


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
