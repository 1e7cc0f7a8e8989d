"""Builds the agents of a configuration file: functions, LLM agents, flows, composites and imported agents."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from turnwise.agents.composite import Loop, Parallel, Sequential, Team
from turnwise.agents.function import FunctionAgent
from turnwise.agents.llm import LlmAgent
from turnwise.agents.llm.design import OutputTool
from turnwise.agents.members import collect
from turnwise.config.agent_section import FlowSection, ImportedInstructions, LlmSection, LoopSection, TeamSection
from turnwise.config.document import Document, Where
from turnwise.config.entries import AgentEntry, EntryTree, PlacedAgent, arrange_entries, list_entries, report_unknown_agents
from turnwise.config.flow_entries import FlowRecipe, read_flow
from turnwise.config.importing import resolve
from turnwise.config.part_entries import AgentReference, build_model, build_tools
from turnwise.config.part_section import stage_of
from turnwise.config.settings import Settings
from turnwise.config.validation import mistakes
from turnwise.facts.errors import AgentDefinitionError, ConfigError, FlowDefinitionError, PatternError, TurnwiseError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.flows.planned import AnyFlow
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.agent import Agent
from turnwise.ports.encoder import Encoder
from turnwise.ports.tool import Tool, Toolset
from turnwise.selection.policy import PolicySpec
from turnwise.selection.stages import Factory, build, build_context, meaning_of
from turnwise.tools.built_in import AgentTool
from turnwise.transcript.view import Budget

_PLAIN_OPTIONS = {"output_key", "output_retries", "settings", "max_steps", "result_characters", "names_next", "callers_tools"}
"""Keys that are arguments of `LlmAgent`."""


class LlmRecipe:
    """A validated entry of kind `llm`. Builds the agent once its card and children are known."""

    purpose = "to be a tool"

    def __init__(self, where: Where, options: Mapping[str, Any], tools: Sequence[Tool | Toolset | AgentReference]) -> None:
        self._where, self._options, self._tools = where, options, tools

    @property
    def referenced_agents(self) -> Sequence[AgentReference]:
        """The other agents that it uses as tools."""
        return [tool for tool in self._tools if isinstance(tool, AgentReference)]

    def agent(self, card: AgentCard, children: Sequence[Agent], about: Mapping[str, str]) -> LlmAgent:
        """Builds the agent.

        Args:
            about: descriptions of the other agents, by name.

        Raises:
            AgentDefinitionError: for two tools of one name.
        """
        fields = card.model_dump(exclude={"name", "description", "kind"})
        tools = [_as_tool(tool, about) for tool in self._tools]
        return LlmAgent(card.name, description=card.description, children=children, tools=tools, **self._options, **fields)

    def try_out(self, document: Document, card: AgentCard) -> bool:
        """Whether the agent can be built. Returns False after it reported the reason."""
        try:
            self.agent(card, (), {})
        except TurnwiseError as error:
            document.report_error((*self._where, "tools"), error)
            return False
        return True


def read_llm(document: Document, where: Where, section: LlmSection) -> LlmRecipe | None:
    """Prepares an LLM agent and imports the modules it names. Returns None after it reported the problems.

    Opens no connection and calls no model.
    """
    made: dict[str, Any] = {
        "model": build_model(document, (*where, "model"), section.model),
        "instructions": _instructions(document, (*where, "instructions"), section.instructions),
        "turn_instructions": _instructions(document, (*where, "turn_instructions"), section.turn_instructions),
        "history": Budget(section.history.tokens, section.history.events),
    }
    if section.summary_model is not None:
        made["summary_model"] = build_model(document, (*where, "summary_model"), section.summary_model)
    made["memory"] = section.memory if isinstance(section.memory, str) else section.memory.use()
    if section.output:
        made["output_type"] = _output_type(document, (*where, "output"), section.output, section.name)
    tools = build_tools(document, (*where, "tools"), section.tools)
    if document.has_problem(where):
        return None
    return LlmRecipe(where, {**section.model_dump(include=_PLAIN_OPTIONS), **made}, tools)


def _instructions(document: Document, where: Where, item: str | ImportedInstructions) -> Any:
    """Returns the instructions: a text or an imported function; None after reporting a problem."""
    if isinstance(item, str):
        return item
    try:
        made = resolve(item.path, document.folder)
        if not callable(made):
            raise ConfigError(f"{item.path} is no function of the context.", fix="Name one that gives the text.")
    except TurnwiseError as error:
        document.report_error((*where, "import"), error)
        return None
    return made


def _output_type(document: Document, where: Where, path: str, agent: str) -> Any:
    """The type of the agent's answers; reports an unsuitable one."""
    try:
        made = resolve(path, document.folder)
        OutputTool(made, agent)
    except TurnwiseError as error:
        document.report_error(where, error)
        return None
    return made


def _as_tool(tool: Tool | Toolset | AgentReference, about: Mapping[str, str]) -> Tool | Toolset:
    if not isinstance(tool, AgentReference):
        return tool
    return AgentTool(tool.name, description=about.get(tool.name) if tool.description is None else tool.description)


Recipe = LlmRecipe | FlowRecipe
_COMPOSITES: Mapping[str, type[Sequential] | type[Parallel]] = {"sequential": Sequential, "parallel": Parallel}


class AgentBuilder:
    """Builds the agents of a configuration file and reports their problems to its document.

    Args:
        encoder: for teams with a semantic selector; None = the built-in encoder.
    """

    def __init__(self, settings: Settings, selectors: Mapping[str, Factory], encoder: Encoder | None = None) -> None:
        self._settings = settings
        self._document = settings.document
        self._selectors, self._encoder = selectors, encoder
        self._entries = list_entries(settings)
        self._objects = [self._import(entry) for entry in self._entries]
        self._recipes = [self._recipe(entry) for entry in self._entries]
        self._cards = [self._card(*each) for each in zip(self._entries, self._objects, self._recipes, strict=True)]
        self._names = [
            card.name if card else _likely_name(entry, imported)
            for entry, imported, card in zip(self._entries, self._objects, self._cards, strict=True)
        ]
        self._descriptions = self._descriptions_by_name()
        self._has_unknown_agents = self._report_unknown_agents()

    def root(self) -> Agent | None:
        """Builds the root with all agents below it. Returns None after it reported the problems."""
        arrangement = arrange_entries(self._document, self._entries, self._names, self._settings.root_name)
        if arrangement is None or None in self._cards:
            return None
        return self._build(arrangement.root, arrangement)

    def tree(self, root: Agent) -> AgentTree | None:
        """Returns the tree of all agents, including agents in code. Returns None after it reported the problems."""
        try:
            return collect(root)[1]
        except TurnwiseError as error:
            if self._has_unknown_agents and isinstance(error, FlowDefinitionError):
                return None  # already reported, with the line of the name
            entries = zip(self._names, self._entries, strict=True)
            named = [entry.where for name, entry in entries if repr(name) in error.problem]
            self._document.report_error(named[-1] if named else ("agents",), error)
            return None

    def report_refused_patterns(self) -> bool:
        """Reports every pattern that the regex engine refuses, with its line. Returns True if there is one."""
        before = len(self._document.problems)
        for entry, imported, card in zip(self._entries, self._objects, self._cards, strict=True):
            for index, refused in _refused_patterns(card) if card else ():
                written = (*entry.where, "patterns", index) if "patterns" in entry.card else _run_location(entry)
                self._document.report_error(written, refused)
            for below in _cards_below(imported) if _is_agent(imported) else ():
                for _, refused in _refused_patterns(below):
                    self._document.report_error(_run_location(entry), refused)
        return len(self._document.problems) > before

    def _import(self, entry: AgentEntry) -> Any:
        """Imports the function or agent of an entry; None without one, or after reporting a problem."""
        if entry.run is None:
            return None
        try:
            imported = resolve(entry.run, self._document.folder)
            if not _is_agent(imported) and (inspect.isclass(imported) or not callable(imported)):
                what = "a class" if inspect.isclass(imported) else f"of the type {type(imported).__name__}"
                raise AgentDefinitionError(f"{entry.run} is {what}, not an agent.", fix="Name a function, or an agent object.")
        except TurnwiseError as error:
            self._document.report_error(_run_location(entry), error)
            return None
        return imported

    def _recipe(self, entry: AgentEntry) -> Recipe | None:
        if isinstance(entry.section, FlowSection):
            return read_flow(self._document, entry.where, entry.section)
        return read_llm(self._document, entry.where, entry.section) if isinstance(entry.section, LlmSection) else None

    def _card(self, entry: AgentEntry, imported: Any, recipe: Recipe | None) -> AgentCard | None:
        """Returns the entry's card, with defaults of the imported object; None after reporting a problem."""
        if not entry.is_valid or (entry.run is not None and imported is None):
            return None
        own: dict[str, Any] = {}
        if _is_agent(imported):
            own = imported.card.model_dump(mode="json")
        elif imported is not None:
            own = {
                "name": getattr(imported, "__name__", None),
                "description": (inspect.getdoc(imported) or "").partition("\n")[0],
            }
        card = self._validated_card(entry, {**own, **entry.card})
        if card is None or imported is None or _is_agent(imported):
            return card if card is None or recipe is None or recipe.try_out(self._document, card) else None
        try:
            FunctionAgent(imported, card)
        except TurnwiseError as error:
            self._document.report_error(_run_location(entry), error)
            return None
        return card

    def _validated_card(self, entry: AgentEntry, data: Mapping[str, Any]) -> AgentCard | None:
        """Validates the card's data; None after reporting its mistakes."""
        try:
            return AgentCard.model_validate_json(json.dumps(data), strict=True, extra="forbid")
        except ValidationError as error:
            for found in mistakes(error, AgentCard, data):
                self._document.report((*entry.where, *found.where), found.problem, found.fix, AgentDefinitionError)
            return None

    def _descriptions_by_name(self) -> Mapping[str, str]:
        """The agents' descriptions by name, including agents below imported ones."""
        cards = [card for card in self._cards if card]
        cards += [below for imported in self._objects if _is_agent(imported) for below in _cards_below(imported)]
        return {card.name: card.description for card in cards}

    def _report_unknown_agents(self) -> bool:
        """Reports references to agents that do not exist. Returns True if there is one.

        Reports nothing if an entry could not be read, because that entry may be the missing agent.
        """
        if None in self._names:
            return False
        known = {**self._descriptions, **{str(name): "" for name in self._names}}
        recipes = [recipe for recipe in self._recipes if recipe is not None]
        found = [report_unknown_agents(self._document, each.referenced_agents, known, each.purpose) for each in recipes]
        return any(found)

    def _build(self, position: int, arrangement: EntryTree) -> Agent | None:
        """Builds an entry's agent with its children; None after reporting a problem."""
        entry, card, imported = self._entries[position], self._cards[position], self._objects[position]
        children = [self._build(child, arrangement) for child in arrangement.children[position]]
        below = [child for child in children if child is not None]
        if card is None or len(below) < len(children):
            return None
        try:
            if _is_agent(imported):
                return self._place(entry, card, imported, below)
            if isinstance(entry.section, LlmSection | FlowSection):
                recipe = self._recipes[position]
                return recipe.agent(card, below, self._descriptions) if recipe else None
            return FunctionAgent(imported, card, below) if imported is not None else self._composite(entry, card, below)
        except TurnwiseError as error:
            self._document.report_error(_run_location(entry), error)
            return None

    def _place(self, entry: AgentEntry, card: AgentCard, agent: Agent, children: Sequence[Agent]) -> Agent:
        """Returns an imported agent with the entry's card and children. Raises AgentDefinitionError if it cannot have them."""
        if children and agent.card.is_composite:
            raise AgentDefinitionError(
                f"{entry.run} is a {agent.card.kind} agent, which runs its own children; it cannot be given others here.",
                fix="Write the composite with its children in this file, or all of it in code.",
            )
        if agent.card.kind == "flow" and card.name != agent.card.name:
            raise AgentDefinitionError(
                f"{entry.run} is the flow {agent.card.name!r}, which keeps its name.", fix="Take 'name' away."
            )
        return PlacedAgent(agent, card, children) if children or entry.card.keys() - {"parent"} else agent

    def _composite(self, entry: AgentEntry, card: AgentCard, children: Sequence[Agent]) -> Agent | None:
        """Builds a composite, loop or team."""
        fields = {name: getattr(card, name) for name in AgentCard.model_fields if name not in {"name", "kind"}}
        if card.kind in _COMPOSITES:
            return _COMPOSITES[card.kind](card.name, children, **fields)
        if isinstance(entry.section, LoopSection):
            return Loop(card.name, children, max_iterations=entry.section.max_iterations, **fields)
        assert isinstance(entry.section, TeamSection)
        stage = stage_of(entry.section.selector)
        if stage.selector not in self._selectors and ":" in stage.selector:
            return None  # the failed import was reported
        members = AgentTree([card.replace(parent=None), *_child_cards(card.name, children)])
        site = build_context(PolicySpec(name=card.name), members, self._selectors, lambda: meaning_of(members, self._encoder))
        selector = build(site, stage.name or stage.selector, stage).selector
        return Team(card.name, children, selector=selector, lead=entry.section.lead, ends=entry.section.ends, **fields)


def team_selector_paths(settings: Settings) -> Iterator[tuple[Where, str]]:
    """The import paths of team selectors, with their locations."""
    for entry in list_entries(settings):
        path = stage_of(entry.section.selector).selector if isinstance(entry.section, TeamSection) else ""
        if ":" in path:
            yield (*entry.where, "selector"), path


def model_names(root: Agent) -> dict[str, str]:
    """The model names of all LLM agents at or below `root`, by agent name."""
    behind = root.agent if isinstance(root, PlacedAgent) else root
    own = {root.card.name: behind.model} if isinstance(behind, LlmAgent) else {}
    return own | {name: model for child in root.children for name, model in model_names(child).items()}


def flows_by_name(root: Agent) -> dict[str, AnyFlow]:
    """All flows at or below `root`, by name."""
    behind = root.agent if isinstance(root, PlacedAgent) else root
    own = {root.card.name: behind} if isinstance(behind, AnyFlow) else {}
    return own | {name: flow for child in root.children for name, flow in flows_by_name(child).items()}


def _is_agent(imported: Any) -> bool:
    return isinstance(getattr(imported, "card", None), AgentCard) and callable(getattr(imported, "run", None))


def _likely_name(entry: AgentEntry, imported: Any) -> str | None:
    """The name of an entry without a valid card, so that references to it are not reported as well."""
    name = entry.card.get("name", getattr(imported, "__name__", None))
    return name if isinstance(name, str) else None


def _refused_patterns(card: AgentCard) -> Iterator[tuple[int, PatternError]]:
    """Yields the patterns that the engine refuses, with their index."""
    for index, pattern in enumerate(card.patterns):
        try:
            if pattern.active:
                PatternIndex([(card.name, pattern.regex, pattern.confidence)])
        except PatternError as refused:
            yield index, refused


def _cards_below(agent: Agent) -> Iterator[AgentCard]:
    for child in agent.children:
        yield child.card
        yield from _cards_below(child)


def _run_location(entry: AgentEntry) -> Where:
    return (*entry.where, "run") if entry.card else entry.where


def _child_cards(parent: str, agents: Sequence[Agent]) -> list[AgentCard]:
    return [agent.card.replace(parent=parent) for agent in agents]
