"""The plans of flows, for callers that may see the flow."""

from typing import NamedTuple

from turnwise.config.entries import PlacedAgent
from turnwise.facts.errors import FlowDefinitionError, NothingHere
from turnwise.flows.drawing import svg
from turnwise.flows.planned import AnyFlow
from turnwise.flows.tasks import Graph, Task
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.runner import Runner

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
