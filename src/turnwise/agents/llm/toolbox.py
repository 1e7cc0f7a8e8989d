"""The tools that one run of an agent has."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from turnwise.agents.llm.design import Design
from turnwise.facts.errors import StaleWriter, ToolFailed
from turnwise.facts.messages import OfferedTool
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, Toolset, ToolSpec
from turnwise.tools.names import reserved_for
from turnwise.tools.transfer import transfer_tool

NAME_CHARACTERS = 64
"""How much of a toolset's name is told."""

log = logging.getLogger("turnwise.agents")


class Toolbox:
    """Those of its tasks in a flow first, then its own, those of toolsets when somebody asks for them. Of two with one name the
    first counts.

    transfer: the tool by which the floor is handed over; None when there is nobody to hand it to. What the caller offered is
    none of these: it is not called here.
    """

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._context, self._toolsets = context, design.toolsets
        self.transfer, self.output = transfer_tool(context), design.output
        self._own = _by_name([*_of_tasks(design, context), *design.tools, *filter(None, (self.transfer, self.output))])
        self._offers = {offer.name: _spec(offer) for offer in context.message_context.tools}
        self._takes_offers = design.callers_tools
        self._left_out: frozenset[str] = frozenset()
        self._known: dict[int, Sequence[Tool]] = {}
        self._problems: dict[int, str] = {}

    async def every(self) -> Mapping[str, Tool]:
        """All tools by name. A toolset that cannot say its tools now has none: see `problems`."""
        await self._look()
        return _by_name([*self._own.values(), *(tool for _, tool in self._of_toolsets())])

    async def find(self, name: str) -> Tool | None:
        """The tool of that name; None when there is none."""
        return self._own.get(name) or (await self.every()).get(name)

    def offered(self, own: Collection[str]) -> Mapping[str, ToolSpec]:
        """The tools that the caller offered, by name, beside these of the agent's own; of one name, its own counts.

        None while a toolset cannot say its tools: nobody knows then which names are its.
        """
        if not self._takes_offers:
            return {}
        left_out = frozenset(name for name in self._offers if self._problems or name in own or reserved_for(name))
        if new := sorted(left_out - self._left_out):
            name, has, listed = self._context.card.name, "may have" if self._problems else "has", ", ".join(new)
            log.info("Agent %r %s tools of its own named %s: those that the caller offers are not used.", name, has, listed)
        self._left_out |= left_out
        return {name: spec for name, spec in self._offers.items() if name not in left_out}

    def offer(self, name: str) -> ToolSpec | None:
        """What the caller offered under that name, whether or not the agent takes it; None when there is no such offer."""
        return self._offers.get(name)

    @property
    def problems(self) -> Sequence[str]:
        """Why some toolsets had no tools when they were asked last."""
        return tuple(self._problems.values())

    async def _look(self) -> None:
        for place, toolset in enumerate(self._toolsets):
            if place not in self._known:
                await self._ask(place, toolset)

    async def _ask(self, place: int, toolset: Toolset) -> None:
        try:
            tools = await toolset.tools(self._context)
            names = {tool.spec.name for tool in tools}
        except ToolFailed as problem:
            self._problems[place] = _problem(toolset, str(problem))
            return
        except StaleWriter:
            raise
        except Exception as error:
            log.exception("Agent %r cannot have the tools of %s.", self._context.card.name, _named(toolset))
            self._problems[place] = f"{_named(toolset)} raised {type(error).__name__}."
            return
        self._problems.pop(place, None)
        self._known[place] = tools
        taken = {tool.spec.name for other, tool in self._of_toolsets() if other < place} | self._own.keys()
        for name in sorted(names & taken):
            log.warning(
                "Agent %r has two tools named %r; that of %s is not used.", self._context.card.name, name, _named(toolset)
            )

    def _of_toolsets(self) -> Iterator[tuple[int, Tool]]:
        return ((place, tool) for place in sorted(self._known) for tool in self._known[place])


def _of_tasks(design: Design, context: AgentContext) -> Sequence[Tool]:
    """What a flow brings for this turn; it is told which of the agent's own tools that replaces."""
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


def _named(toolset: Toolset) -> str:
    """The toolset for people and models: by its `name` if it has one, else by its class."""
    name = getattr(toolset, "name", None)
    kind = type(toolset).__name__
    return f"The toolset {kind} {name[:NAME_CHARACTERS]!r}" if isinstance(name, str) and name else f"The toolset {kind}"


def _problem(toolset: Toolset, words: str) -> str:
    """What a toolset says of itself, with its name in it."""
    name = getattr(toolset, "name", None)
    return words if isinstance(name, str) and name and name in words else f"{_named(toolset)}: {words}"


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        found.setdefault(tool.spec.name, tool)
    return found
