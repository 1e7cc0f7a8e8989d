"""The agents of a configuration file: a flat list of entries, checks of the names in it, and their order in a tree."""

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.config.agent_section import AgentSection, FlowSection, FunctionSection, UntilKeys, UntilList
from turnwise.config.document import Document, Where
from turnwise.config.part_entries import AgentReference
from turnwise.config.settings import Settings
from turnwise.facts.errors import AgentDefinitionError, DuplicateAgent, FlowDefinitionError, TreeCycle, TreeError
from turnwise.facts.events import Event
from turnwise.facts.hints import did_you_mean
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
        _add_entry(settings.written, ("agents", index), item, entries)
    return tuple(entries)


def _add_entry(written: Document, where: Where, item: str | AgentSection | None, entries: list[AgentEntry]) -> int:
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
        children.append(child if is_name else _add_entry(written, (*where, "children", index), child, entries))
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


DEPTH = 100


class EntryTree(NamedTuple):
    """The tree of the entries, by their positions."""

    root: int
    """The root's position."""
    children: Mapping[int, Sequence[int]]
    """The positions of each entry's children, in order."""


def arrange_entries(
    document: Document, entries: Sequence[AgentEntry], names: Sequence[str | None], root: str | None
) -> EntryTree | None:
    """Arranges the entries in a tree. Returns None after it reported the problems to the document.

    An entry's parent is the entry that nests or lists it, or the one its `parent` names. All others are children of the root.

    Args:
        names: the entries' names; None for an entry that could not be read.
        root: the root's name, if the file gives one.
    """
    return _TreeBuilder(document, entries, names, root).arrange()


class _TreeBuilder:
    def __init__(
        self, document: Document, entries: Sequence[AgentEntry], names: Sequence[str | None], root: str | None
    ) -> None:
        self._document = document
        self._entries = entries
        self._names = names
        self._root = root
        self._positions: dict[str, int] = {}
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {position: [] for position in range(len(entries))}
        self._is_valid = all(name is not None for name in names)

    def arrange(self) -> EntryTree | None:
        """Returns the tree of all entries; None if there are problems, which are reported."""
        self._report_duplicates()
        for position, entry in enumerate(self._entries):
            self._place_listed(position, entry)
        for position, entry in enumerate(self._entries):
            self._place_by_parent(position, entry)
        root = self._find_root()
        self._report_cycles()
        return EntryTree(root, self._children) if self._is_valid and root is not None else None

    def _report(self, position: int, key: tuple[str | int, ...], error: TreeError) -> None:
        self._is_valid = False
        self._document.report_error((*self._entries[position].where, *key), error)

    def _report_duplicates(self) -> None:
        """Reports names that several entries have."""
        for position, name in enumerate(self._names):
            if name is None:
                continue
            first = self._positions.setdefault(name, position)
            if first != position:
                line = self._document.mark(self._entries[first].where).line
                problem = f"Two agents are named {name!r}: this one and the one in line {line}."
                self._report(position, (), DuplicateAgent(problem, fix="Names are identity: rename one of them."))

    def _find(self, position: int, key: tuple[str | int, ...], name: str, role: str) -> int | None:
        """Returns the position of the entry with that name; None after reporting an unknown one."""
        found = self._positions.get(name)
        if found is None and None not in self._names:
            mine = self._names[position]
            fix = did_you_mean(name, self._positions)
            self._report(position, key, TreeError(f"Agent {mine!r} names the {role} {name!r}, which does not exist.", fix=fix))
        return found

    def _place_listed(self, position: int, entry: AgentEntry) -> None:
        """Puts the entry's listed children below it, and reports a child that has two parents."""
        for index, child in enumerate(entry.children):
            key = ("children", index)
            found = child if isinstance(child, int) else self._find(position, key, child, "child")
            if found is None:
                continue
            if found in self._parents:
                other, mine = self._names[self._parents[found]], self._names[position]
                where = f"twice below {mine!r}" if other == mine else f"below {other!r} and below {mine!r}"
                fix = "An agent has one parent: take it out of one, or make a second agent with a name of its own."
                self._report(position, key, DuplicateAgent(f"Agent {self._names[found]!r} is {where}.", fix=fix))
                continue
            self._set_parent(found, position)

    def _place_by_parent(self, position: int, entry: AgentEntry) -> None:
        """Puts the entry below the parent that it names, and reports a contradiction."""
        parent = entry.card.get("parent")
        if not isinstance(parent, str):
            return
        found = self._find(position, ("parent",), parent, "parent")
        if found is None or self._parents.get(position) == found:
            return
        if position in self._parents:
            other = self._names[self._parents[position]]
            problem = f"Agent {self._names[position]!r} names the parent {parent!r}, but is below {other!r}."
            self._report(position, ("parent",), DuplicateAgent(problem, fix="An agent has one parent: remove one of the two."))
            return
        self._set_parent(position, found)

    def _set_parent(self, child: int, parent: int) -> None:
        self._parents[child] = parent
        self._children[parent].append(child)

    def _find_root(self) -> int | None:
        """Returns the root's position, and puts other entries without a parent below it; None after reporting."""
        free = [position for position in range(len(self._entries)) if position not in self._parents]
        root = self._named_root()
        if root is None:
            if self._root is not None or not free:
                return None
            root = free[0]
            if len(free) > 1 and self._is_valid:
                names = ", ".join(str(self._names[position]) for position in free[:10])
                fix = f"Write `root: {self._names[root]}`: the others are then below it; or give all but one a parent."
                problem = f"Several agents have no parent ({names}), and no root is named."
                self._report(free[1], (), TreeError(problem, fix=fix))
        for position in free:
            if position != root:
                self._set_parent(position, root)
        return root

    def _named_root(self) -> int | None:
        """Finds the root that the file names, by import path or by name. Returns None if it names none or a wrong one."""
        if self._root is None:
            return 0 if self._entries and self._entries[0].where == ("root",) else None
        found = self._positions.get(self._root)
        if found is None:
            if None not in self._names:
                fix = did_you_mean(self._root, self._positions) + " Or write an import path, module:attribute."
                self._is_valid = False
                self._document.report(("root",), f"There is no agent {self._root!r} for the root.", fix, TreeError)
        elif found in self._parents:
            parent = self._names[self._parents[found]]
            problem = f"The root {self._root!r} is below {parent!r}."
            self._report(found, ("parent",), TreeError(problem, fix="Remove its parent."))
        return found

    def _report_cycles(self) -> None:
        """Reports entries below themselves, and trees that are too deep."""
        depths: dict[int, int] = {}
        for position in range(len(self._entries)):
            path: list[int] = []
            at: int | None = position
            while at is not None and at not in depths and at not in path:
                path.append(at)
                at = self._parents.get(at)
            if at is not None and at in path:
                circle = " → ".join(str(self._names[link]) for link in [*path[path.index(at) :], at])
                self._report(at, ("parent",), TreeCycle(f"Agents are below themselves: {circle}.", fix="Change one parent."))
                at = None
            above = depths.get(at, 0) if at is not None else 0
            depths |= {link: above + number for number, link in enumerate(reversed(path), 1)}
        if depths and max(depths.values()) > DEPTH:
            deepest = max(depths, key=lambda position: depths[position])
            problem = f"The tree is {depths[deepest]} levels deep at {self._names[deepest]!r}; {DEPTH} are allowed."
            self._report(deepest, (), TreeError(problem, fix="Make it flatter."))


def report_unknown_agents(
    document: Document, references: Sequence[AgentReference], known: Mapping[str, str], purpose: str
) -> bool:
    """Reports references to agents that do not exist. Returns True if there is one."""
    unknown = [reference for reference in references if reference.name not in known]
    for reference in unknown:
        problem = f"There is no agent {reference.name!r} {purpose}."
        document.report(reference.where, problem, did_you_mean(reference.name, known), AgentDefinitionError)
    return bool(unknown)


def report_unknown_tasks(document: Document, where: Where, flow: FlowSection) -> None:
    """Reports duplicate task names, and references to tasks that do not exist: dependencies, parents, conditions, targets.

    Args:
        where: the location of the flow.
    """
    known: dict[str, int] = {}
    for index, task in enumerate(flow.tasks):
        first = known.setdefault(task.name, index)
        if first != index:
            line = document.mark((*where, "tasks", first)).line
            problem = f"Two tasks are named {task.name!r}: this one and the one in line {line}."
            document.report((*where, "tasks", index, "name"), problem, "Rename one of them.", FlowDefinitionError)
    for below, name, role in (*_between_tasks(flow), *_targets(flow), *_in_condition(flow.until, ("until",))):
        if name not in known:
            problem = f"There is no task {name!r} {role}."
            document.report((*where, *below), problem, did_you_mean(name, known), FlowDefinitionError)


def _between_tasks(flow: FlowSection) -> Iterator[tuple[Where, str, str]]:
    for position, task in enumerate(flow.tasks):
        for index, name in enumerate(task.depends_on):
            yield ("tasks", position, "depends_on", index), name, f"on which {task.name!r} depends"
        if task.parent is not None:
            yield ("tasks", position, "parent"), task.parent, f"to be the parent of {task.name!r}"


def _targets(flow: FlowSection) -> Iterator[tuple[Where, str, str]]:
    for index, name in enumerate(flow.targets or ()):
        yield ("targets", index), name, "for the target"


def _in_condition(item: Any, where: Where) -> Iterator[tuple[Where, str, str]]:
    """The tasks that an `until` condition waits for."""
    if isinstance(item, UntilList):
        for index, each in enumerate(item.root):
            yield from _in_condition(each, (*where, index))
    elif isinstance(item, UntilKeys):
        for key in ("any_complete", "any_failed"):
            for index, name in enumerate(getattr(item, key)):
                yield (*where, key, index), name, "to wait for"
        for key in ("any", "all"):
            for index, each in enumerate(getattr(item, key)):
                yield from _in_condition(each, (*where, key, index))
