"""The agents that a caller may see or address, the plans of flows, and the weaknesses of agents' cards."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnwise.access.rights import roles_of
from turnwise.config.entries import PlacedAgent
from turnwise.facts.errors import FlowDefinitionError, NothingHere, RequestInvalid
from turnwise.facts.tree import AgentCard
from turnwise.flows.drawing import svg
from turnwise.flows.planned import AnyFlow
from turnwise.flows.tasks import Graph, Task
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.background import CachedResults
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.learning.lint import lint, texts_of
from turnwise.learning.lint_examples import Finding
from turnwise.matching.normalize import legible
from turnwise.runner import Runner
from turnwise.selection.cascade import Cascade
from turnwise.selection.eligibility import eligible
from turnwise.selection.phrases import PHRASE_CHARACTERS
from turnwise.selection.vectors import vectors_of


class VisibleAgent(NamedTuple):
    """An agent's card, with the children that the caller may see."""

    card: AgentCard
    children: tuple[str, ...]


class Agents:
    """Lists and shows the agents that a caller may see. An agent that the caller may not use looks like a missing one.

    All methods raise Forbidden without the permission `agents:read`.
    """

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    def page(self, *, after: str | None, limit: int) -> tuple[Sequence[VisibleAgent], str | None]:
        """Returns one page of agents in the tree's order.

        Args:
            after: The last name of the previous page; None for the first page.
            limit: The maximum number of agents.

        Returns:
            The agents, and the name to pass as the next `after`; None if this is the last page.

        Raises:
            RequestInvalid: `after` is not the name of a visible agent.
        """
        names = list(self._visible_names())
        if after is not None and after not in names:
            raise RequestInvalid("There is no such agent.", fix="Pass a page's `next` unchanged.", where=("query", "after"))
        begin = 0 if after is None else names.index(after) + 1
        page = [self._with_children(name) for name in names[begin : begin + limit]]
        return page, names[begin + limit - 1] if len(names) > begin + limit else None

    def get(self, name: str) -> VisibleAgent:
        """Returns the agent with this name.

        Raises:
            NothingHere: There is no such agent, or the caller may not use it.
        """
        if name not in self._visible_names():
            raise NothingHere(f"There is no agent {name[:64]!r}.", fix="List the agents.")
        return self._with_children(name)

    def _visible_names(self) -> dict[str, None]:
        self._scope.require("agents:read")
        view = Redactor(self._scope.caller, self._runner.tree)
        return {card.name: None for card in self._runner.tree if view.reaches(card.name)}

    def _with_children(self, name: str) -> VisibleAgent:
        view = Redactor(self._scope.caller, self._runner.tree)
        return VisibleAgent(self._runner.tree.card(name), tuple(filter(view.reaches, self._runner.tree.children(name))))


DIRECT = "direct"
"""The selector that lets a caller name an agent (behaviour C1). Without it in the policy, naming an agent has no effect."""


class Addressees:
    """The agents that a caller may address by name, past the selectors."""

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    def names(self) -> Sequence[str]:
        """Returns the names in the tree's order. Raises Forbidden without the permission `agents:read`."""
        self._scope.require("agents:read")
        return tuple(self._names())

    def has(self, name: str) -> bool:
        """Returns whether the caller may address a message to this agent."""
        return name in self._names()

    def _names(self) -> Collection[str]:
        if not any(stage.selector == DIRECT for stage in self._runner.cascade.spec.stages):
            return ()
        return eligible(self._runner.tree, roles=roles_of(self._scope.caller)).names


MOST_DRAWN = 200
"""Tasks of the largest plan that is drawn: larger ones take seconds, and nobody can read them."""


class TaskPlace(NamedTuple):
    """A task in the plan of a flow."""

    task: Task
    agents: tuple[str, ...]
    """The agents that may do it and that the caller may see."""
    needs: tuple[str, ...]
    """The tasks that must be complete before it."""


class FlowPlan(NamedTuple):
    """The plan of a flow."""

    tasks: tuple[TaskPlace, ...] | None
    """In an order in which they can be done; None if each run plans its own."""
    drawing: str | None
    """An SVG picture; None if there is no plan yet, if it is too large, or if it names agents that the caller may not see."""


class Plans:
    """Shows the plans of flows. A flow that the caller may not see looks like a missing one."""

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    def get(self, name: str) -> FlowPlan:
        """Returns the plan of a flow.

        Raises:
            Forbidden: The caller lacks `agents:read`.
            NothingHere: There is no such flow, or the caller may not use it.
        """
        self._scope.require("agents:read")
        view = Redactor(self._scope.caller, self._runner.tree)
        agent = self._runner.sets.current.agents.get(name)
        flow = agent.agent if isinstance(agent, PlacedAgent) else agent
        if not isinstance(flow, AnyFlow) or not view.reaches(name):
            raise NothingHere(f"There is no flow {name[:64]!r}.", fix="List the agents: flows have the kind `flow`.")
        if flow.graph is None:
            return FlowPlan(None, None)
        anybody = tuple(self._runner.tree.children(name))
        tasks = tuple(_place(flow.graph, each, anybody, view) for each in flow.graph.order)
        return FlowPlan(tasks, _drawing(flow.graph, tasks, anybody))


def _place(graph: Graph, name: str, anybody: tuple[str, ...], view: Redactor) -> TaskPlace:
    task = graph.tasks[name]
    agents = tuple(filter(view.reaches, task.agent_names or anybody))
    return TaskPlace(task, agents, tuple(graph.needs[name]))


def _drawing(graph: Graph, seen: tuple[TaskPlace, ...], anybody: tuple[str, ...]) -> str | None:
    """Returns the drawing of a plan as SVG; None if agents in it are hidden, or it is too large."""
    hidden = any(len(each.agents) < len(each.task.agent_names or anybody) for each in seen)
    if hidden or len(seen) > MOST_DRAWN:
        return None
    try:
        return svg(graph)
    except FlowDefinitionError:
        return None


MOST_COMPARED = 5_000
"""Texts of the largest set of agents that is compared by meaning. `turnwise lint` compares larger ones."""


class LintReport(NamedTuple):
    """Lint's findings."""

    agents: int
    findings: Sequence[Finding]
    """Errors first."""
    by_meaning: bool
    """Whether examples were compared by meaning."""


class Linting:
    """Shows what makes agents hard to tell apart."""

    def __init__(self, runner: Runner, scope: SessionScope, reports: CachedResults[LintReport]) -> None:
        self._runner, self._scope, self._reports = runner, scope, reports

    async def report(self) -> LintReport:
        """Returns the report about the agents that serve now. Raises Forbidden without `definitions:read`."""
        self._scope.require("definitions:read")
        cascade = self._runner.cascade
        version = f"{cascade.tree.version} {cascade.fingerprint}"
        return await self._reports.of(version, lambda: asyncio.to_thread(_report, cascade))


def _report(cascade: Cascade) -> LintReport:
    """Lints the agents of a policy. Examples are compared by meaning only while there are few."""
    tree, meaning, vectors = cascade.tree, cascade.meaning, None
    texts = [legible(text[:PHRASE_CHARACTERS]) for text in texts_of(tree)]
    if meaning is not None and 0 < len(texts) <= MOST_COMPARED:
        vectors = vectors_of(texts, meaning.encoder, cache=None, progress=lambda *_: None)
    found = lint(tree, vectors, default=cascade.spec.default, general=cascade.spec.general)
    return LintReport(len(tree), found, vectors is not None)
