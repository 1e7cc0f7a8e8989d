"""Which tasks are ready for whom, and what a turn is about. Pure."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from turnwise.facts.events import segment_of
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import Progress
from turnwise.ports.assignment import AssignedTask, Scope

Pool = Mapping[str, Sequence[str]]
"""Agents who have something to do, in the order of their first task, and with each the tasks that it may do, in the flow's
order."""


class Turn(NamedTuple):
    """One run of one agent. number: from 1, within the flow's run. beside: whether others run at the same time."""

    number: int
    agent: str
    tasks: tuple[AssignedTask, ...]
    scope: Scope
    beside: bool = False

    @property
    def segment(self) -> str:
        """Its part of the branch: agents side by side do not see each other, those who come later see them all."""
        place = f"{segment_of(self.agent)}#{self.number}"
        return f"turn#{self.number}/~{place}" if self.beside else place


def pool_of(graph: Graph, progress: Progress, agents: Sequence[str], reachable: Callable[[str], bool]) -> Pool:
    """Who may do what is ready. agents: who may do a task that names nobody."""
    found: dict[str, list[str]] = {}
    allowed: dict[str, bool] = {}
    for task in progress.ready:
        for name in graph.tasks[task].agent_names or agents:
            if name not in allowed:
                allowed[name] = reachable(name)
            if allowed[name]:
                found.setdefault(name, []).append(task)
    return found


def without(pool: Pool, agent: str, tasks: Sequence[str]) -> Pool:
    """The pool once that agent has taken these tasks: it is busy, and nobody else may do them now."""
    taken = set(tasks)
    left = {name: [task for task in theirs if task not in taken] for name, theirs in pool.items() if name != agent}
    return {name: theirs for name, theirs in left.items() if theirs}


def is_within(flow: str, outer: Scope) -> bool:
    """Whether the flow is at work already, and this would be one of its own tasks; `outer` as of Labels."""
    flows = outer.labels[0].split("/")[::2] if outer.labels else []
    return segment_of(flow) in flows


def own_label(flow: str, outer: Scope) -> str:
    """The label of what the flow says of itself, which none of its agents sees; `outer` as of Labels."""
    above = f"{outer.labels[0]}/" if outer.labels else ""
    return f"{above}{segment_of(flow)}"


class Labels:
    """The labels of one run of a flow, within the scope of the task that it is itself, if it is one (behaviour D7)."""

    def __init__(self, flow: str, graph: Graph, outer: Scope) -> None:
        self.own = own_label(flow, outer)
        self._graph = graph
        self._outer = frozenset(outer.sees or ()) - frozenset(outer.labels)
        self._labels = {task: f"{self.own}/{segment_of(task)}" for task in graph.order}
        self._in_order = tuple(self._labels.values())

    def of(self, task: str) -> str:
        """A task's."""
        return self._labels[task]

    def scope(self, tasks: Sequence[str]) -> Scope:
        """Of whoever is at work on these: it sees them, all that is upstream of them, and what the flow itself sees."""
        seen = frozenset(compress(self._in_order, self._graph.marked(tasks)))
        return Scope(tuple(self.of(task) for task in tasks), seen | self._outer)


def turn_of(graph: Graph, progress: Progress, labels: Labels, number: int, agent: str, tasks: Sequence[str]) -> Turn:
    """The turn in which that agent works on these tasks."""
    return Turn(number, agent, tuple(_assigned(graph, progress, task) for task in tasks), labels.scope(tasks))


def _assigned(graph: Graph, progress: Progress, name: str) -> AssignedTask:
    task = graph.tasks[name]
    closings = ((need, progress.closings[need]) for need in graph.needs[name])
    given = {need: closing.result for need, closing in closings if closing.status.is_success}
    return AssignedTask(name, task.objective, task.result.schema, given, task.interactive)
