"""The tools of one run of an LLM agent."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from turnwise.agents.llm.design import Design
from turnwise.facts.errors import StaleWriter, ToolFailed
from turnwise.facts.messages import OfferedTool
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, Toolset, ToolSpec
from turnwise.tools.built_in import transfer_tool
from turnwise.tools.names import reserved_for

NAME_CHARACTERS = 64
"""The most characters of a toolset's name that are shown."""

log = logging.getLogger("turnwise.agents")


class Toolbox:
    """Collects the tools of one run: those of assigned tasks, then the agent's own, then those of toolsets, loaded on
    demand.

    If two tools have one name, the first is used. Tools that the caller offers are listed separately, as they do not
    run here.

    Attributes:
        transfer: The tool that transfers to another agent; None if there is no target.
        output: The tool that takes a typed answer; None if the answer is text.
    """

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._context, self._toolsets = context, design.toolsets
        self.transfer, self.output = transfer_tool(context), design.output
        self._own = _by_name([*_assigned_tools(design, context), *design.tools, *filter(None, (self.transfer, self.output))])
        self._offers = {offer.name: _spec(offer) for offer in context.message_context.tools}
        self._uses_offers = design.callers_tools
        self._left_out: frozenset[str] = frozenset()
        self._loaded: dict[int, Sequence[Tool]] = {}
        self._problems: dict[int, str] = {}

    async def every(self) -> Mapping[str, Tool]:
        """Returns all tools by name. A toolset that is unavailable contributes none: see `problems`."""
        await self._load_missing()
        return _by_name([*self._own.values(), *(tool for _, tool in self._of_toolsets())])

    async def find(self, name: str) -> Tool | None:
        """Returns the tool of that name, or None."""
        return self._own.get(name) or (await self.every()).get(name)

    def offered(self, own: Collection[str]) -> Mapping[str, ToolSpec]:
        """Returns the caller's tools by name, without those named like one of the agent's own tools in `own`.

        It is empty while a toolset is unavailable, because the names of its tools are unknown.
        """
        if not self._uses_offers:
            return {}
        left_out = frozenset(name for name in self._offers if self._problems or name in own or reserved_for(name))
        if new := sorted(left_out - self._left_out):
            name, has, listed = self._context.card.name, "may have" if self._problems else "has", ", ".join(new)
            log.info("Agent %r %s tools of its own named %s: those that the caller offers are not used.", name, has, listed)
        self._left_out |= left_out
        return {name: spec for name, spec in self._offers.items() if name not in left_out}

    def offer(self, name: str) -> ToolSpec | None:
        """Returns the caller's tool of that name, even if the agent does not use it; None if there is none."""
        return self._offers.get(name)

    @property
    def problems(self) -> Sequence[str]:
        """The reasons why toolsets were unavailable at the last attempt."""
        return tuple(self._problems.values())

    async def _load_missing(self) -> None:
        for place, toolset in enumerate(self._toolsets):
            if place not in self._loaded:
                await self._load(place, toolset)

    async def _load(self, place: int, toolset: Toolset) -> None:
        """Loads the tools of one toolset. A failure is kept as a problem of the set; the others stay usable."""
        try:
            tools = await toolset.tools(self._context)
            names = {tool.spec.name for tool in tools}
        except ToolFailed as problem:
            self._problems[place] = _problem(toolset, str(problem))
            return
        except StaleWriter:
            raise
        except Exception as error:
            log.exception("Agent %r cannot have the tools of %s.", self._context.card.name, _label(toolset))
            self._problems[place] = f"{_label(toolset)} raised {type(error).__name__}."
            return
        self._problems.pop(place, None)
        self._loaded[place] = sorted(tools, key=lambda tool: tool.spec.name)  # in one order in all turns
        taken = {tool.spec.name for other, tool in self._of_toolsets() if other < place} | self._own.keys()
        for name in sorted(names & taken):
            log.warning(
                "Agent %r has two tools named %r; that of %s is not used.", self._context.card.name, name, _label(toolset)
            )

    def _of_toolsets(self) -> Iterator[tuple[int, Tool]]:
        return ((place, tool) for place in sorted(self._loaded) for tool in self._loaded[place])


def _assigned_tools(design: Design, context: AgentContext) -> Sequence[Tool]:
    """Returns the tools of the assignment; logs a warning for each own tool that they replace."""
    if context.assignment is None:
        return ()
    brought: Sequence[Tool] = context.assignment.tools
    for name in sorted({tool.spec.name for tool in brought} & {tool.spec.name for tool in design.tools}):
        log.warning(
            "Agent %r has two tools named %r; its own is not used while it works for %r.",
            context.card.name,
            name,
            context.assignment.by,
        )
    return brought


def _spec(offer: OfferedTool) -> ToolSpec:
    return ToolSpec(name=offer.name, description=offer.description, parameters=offer.parameters)


def _label(toolset: Toolset) -> str:
    """Returns the toolset's label for people and models: its class, and its `name` if it has one."""
    name = getattr(toolset, "name", None)
    kind = type(toolset).__name__
    return f"The toolset {kind} {name[:NAME_CHARACTERS]!r}" if isinstance(name, str) and name else f"The toolset {kind}"


def _problem(toolset: Toolset, message: str) -> str:
    """Returns the toolset's error message with its name in it."""
    name = getattr(toolset, "name", None)
    return message if isinstance(name, str) and name and name in message else f"{_label(toolset)}: {message}"


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    tools_by_name: dict[str, Tool] = {}
    for tool in tools:
        tools_by_name.setdefault(tool.spec.name, tool)
    return tools_by_name
