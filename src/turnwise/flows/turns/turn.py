"""Which tasks are ready for whom, and what a turn is about. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from turnwise.facts.events import segment_of
from turnwise.facts.selections import Verdict
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import Progress
from turnwise.ports.assignment import AssignedTask, Scope
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.conversational import matching_name
from turnwise.selection.verdicts import abstained, chosen, run_selector, shortened

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


def pool_without(pool: Pool, agent: str, tasks: Sequence[str]) -> Pool:
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


_AGENTS_SHOWN = 8


class TurnChoice:
    """One turn's choice among the pool, which is the request's `eligible`; it goes by its strategy's name and place in order.

    active: who had the last turn and did not end it; named: who was named as the next; both None when there is nobody. Who
    is not in the pool is not chosen, and that a name was passed over is recorded. Without a choice of the strategy it is
    the first of the pool, so only an empty pool gives an abstention.
    """

    def __init__(self, active: str | None, named: str | None, strategy: Selector) -> None:
        self._active, self._named, self._strategy = active, named, strategy

    @property
    def name(self) -> str:
        return self._strategy.name

    def settled(self, pool: Collection[str]) -> str | None:
        """Who it is whatever the strategy says; None when the strategy decides."""
        if self._active in pool:
            return self._active
        return matching_name(self._named, pool) if self._named else None

    async def select(self, request: SelectionRequest) -> Verdict:
        pool = _pool(request)
        if not request.eligible:
            return abstained(self.name, "Nobody is in the pool.")
        ignored = self._ignored(request.eligible)
        agent = self.settled(request.eligible)
        if agent is not None:
            method, why = ("active", "is at work") if agent == self._active else ("named", "was named as the next")
            reason = f"{agent} {why}. {pool}"
            return chosen(self.name, agent, method=method, confidence=1.0, reason=reason, ignored=ignored)
        verdict = await run_selector(self._strategy, request, self.name)
        ignored = (*ignored, *verdict.ignored)
        if verdict.outcome == "chosen":
            reason = f"{verdict.reason} {pool}" if len(request.eligible) > 1 else _alone(request)
            return verdict.model_copy(update={"reason": reason, "ignored": ignored})
        agent = request.eligible[0]
        reason = f"{verdict.reason} So it is {agent}, the first of the pool. {pool}"
        return chosen(self.name, agent, method="first", confidence=1.0, reason=reason, ignored=ignored)

    def _ignored(self, pool: Collection[str]) -> tuple[str, ...]:
        if not self._named or self.settled(pool) is not None:
            return ()
        return (f"{shortened(self._named)!r} was named as the next, and has no ready task",)


def _pool(request: SelectionRequest) -> str:
    """The pool in words: `In the pool: a (2 ready tasks), b (1 ready task).`, or that there is nobody else."""
    if len(request.eligible) == 1:
        return "Nobody else has a ready task."
    agents = [f"{name} ({_counted(request.tasks.get(name, 0))})" for name in request.eligible[:_AGENTS_SHOWN]]
    more = len(request.eligible) - len(agents)
    return f"In the pool: {', '.join(agents)}{f' and {more} more' if more else ''}."


def _alone(request: SelectionRequest) -> str:
    """Why it is the only one in the pool: whatever the strategy says of it, it had no choice."""
    agent = request.eligible[0]
    tasks = request.tasks.get(agent, 0)
    return f"Only {agent} has a ready task." if tasks < 2 else f"Only {agent} has ready tasks, {tasks} of them."


def _counted(tasks: int) -> str:
    return f"{tasks} ready task{'' if tasks == 1 else 's'}"
