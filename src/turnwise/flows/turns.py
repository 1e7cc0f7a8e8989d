"""Turns of a flow: the ready tasks by agent, the choice of the next agent, and the texts that it gets about its tasks. Pure."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart
from turnwise.facts.events import segment_of
from turnwise.facts.selections import Verdict
from turnwise.flows.tasks import Graph, Progress
from turnwise.ports.assignment import AssignedTask, Scope
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.conversational import matching_name
from turnwise.selection.verdicts import abstained, chosen, run_selector, shortened
from turnwise.tools import names

Pool = Mapping[str, Sequence[str]]
"""The agents that have ready tasks, in the order of their first task, each with these tasks in the flow's order."""

_AGENTS_SHOWN = 8

SUCCEEDED, FAILED, END_TURN = names.SUCCEEDED, names.FAILED, names.END_TURN
"""The tools by which a model reports the end of its tasks or of its turn."""


class Turn(NamedTuple):
    """One run of one agent in a flow."""

    number: int
    """The number within the flow's run, from 1."""
    agent: str
    tasks: tuple[AssignedTask, ...]
    scope: Scope
    beside: bool = False
    """True if other turns run at the same time."""

    @property
    def segment(self) -> str:
        """The turn's part of the branch. Concurrent agents do not see each other's events; agents of later turns see them
        all.
        """
        place = f"{segment_of(self.agent)}#{self.number}"
        return f"turn#{self.number}/~{place}" if self.beside else place


def pool_of(graph: Graph, progress: Progress, agents: Sequence[str], reachable: Callable[[str], bool]) -> Pool:
    """Returns the pool of ready tasks.

    Args:
        agents: The agents for tasks that name no agent.
        reachable: Checks whether the caller may reach an agent.
    """
    tasks_by_agent: dict[str, list[str]] = {}
    allowed: dict[str, bool] = {}
    for task in progress.ready:
        for name in graph.tasks[task].agent_names or agents:
            if name not in allowed:
                allowed[name] = reachable(name)
            if allowed[name]:
                tasks_by_agent.setdefault(name, []).append(task)
    return tasks_by_agent


def pool_without(pool: Pool, agent: str, tasks: Sequence[str]) -> Pool:
    """Returns the pool after that agent took these tasks: without the agent and without the tasks."""
    taken = set(tasks)
    remaining = {name: [task for task in own_tasks if task not in taken] for name, own_tasks in pool.items() if name != agent}
    return {name: own_tasks for name, own_tasks in remaining.items() if own_tasks}


def is_within(flow: str, outer: Scope) -> bool:
    """Checks whether the flow would run inside one of its own tasks. `outer` is the scope around it."""
    flows = outer.labels[0].split("/")[::2] if outer.labels else []
    return segment_of(flow) in flows


def own_label(flow: str, outer: Scope) -> str:
    """Returns the label of events that the flow emits about itself, which its agents do not see."""
    above = f"{outer.labels[0]}/" if outer.labels else ""
    return f"{above}{segment_of(flow)}"


class Labels:
    """The labels of one run of a flow, within the scope of the task that the flow itself works on (behaviour D7)."""

    def __init__(self, flow: str, graph: Graph, outer: Scope) -> None:
        self.own = own_label(flow, outer)
        self._graph = graph
        self._outer = frozenset(outer.sees or ()) - frozenset(outer.labels)
        self._labels = {task: f"{self.own}/{segment_of(task)}" for task in graph.order}
        self._in_order = tuple(self._labels.values())

    def of(self, task: str) -> str:
        """Returns a task's label."""
        return self._labels[task]

    def scope(self, tasks: Sequence[str]) -> Scope:
        """Returns the scope of a turn on these tasks: it sees them, all upstream of them, and all that the flow itself
        sees.
        """
        seen = frozenset(compress(self._in_order, self._graph.marked(tasks)))
        return Scope(tuple(self.of(task) for task in tasks), seen | self._outer)


def turn_of(graph: Graph, progress: Progress, labels: Labels, number: int, agent: str, tasks: Sequence[str]) -> Turn:
    """Returns the turn in which that agent works on these tasks."""
    return Turn(number, agent, tuple(_assigned(graph, progress, task) for task in tasks), labels.scope(tasks))


class TurnChoice:
    """The selector of one turn: picks from the pool, which is the request's `eligible`.

    It has the name of its strategy and therefore shares its position. An agent outside the pool is never picked, and
    the record states that a name was ignored. If the strategy abstains, the first of the pool is picked, so only an
    empty pool leads to an abstention.

    Args:
        active: The agent that had the last turn and did not end it, or None.
        named: The agent that was named as the next one, or None.
        strategy: The flow's strategy.
    """

    def __init__(self, active: str | None, named: str | None, strategy: Selector) -> None:
        self._active, self._named, self._strategy = active, named, strategy

    @property
    def name(self) -> str:
        return self._strategy.name

    def settled(self, pool: Collection[str]) -> str | None:
        """Returns the agent that is picked without the strategy; None if the strategy decides."""
        if self._active in pool:
            return self._active
        return matching_name(self._named, pool) if self._named else None

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent of the next turn: the active, else the named, else the strategy's, else the first of the pool."""
        pool_text = _pool_text(request)
        if not request.eligible:
            return abstained(self.name, "Nobody is in the pool.")
        ignored = self._ignored(request.eligible)
        agent = self.settled(request.eligible)
        if agent is not None:
            method, why = ("active", "is at work") if agent == self._active else ("named", "was named as the next")
            reason = f"{agent} {why}. {pool_text}"
            return chosen(self.name, agent, method=method, confidence=1.0, reason=reason, ignored=ignored)
        verdict = await run_selector(self._strategy, request, self.name)
        ignored = (*ignored, *verdict.ignored)
        if verdict.outcome == "chosen":
            reason = f"{verdict.reason} {pool_text}" if len(request.eligible) > 1 else _only_reason(request)
            return verdict.replace(reason=reason, ignored=ignored)
        agent = request.eligible[0]
        reason = f"{verdict.reason} So it is {agent}, the first of the pool. {pool_text}"
        return chosen(self.name, agent, method="first", confidence=1.0, reason=reason, ignored=ignored)

    def _ignored(self, pool: Collection[str]) -> tuple[str, ...]:
        if not self._named or self.settled(pool) is not None:
            return ()
        return (f"{shortened(self._named)!r} was named as the next, and has no ready task",)


class HandoffNote(NamedTuple):
    """The note of an agent that ended its turn, for the next agent."""

    by: str
    content: Content


def brief(tasks: Sequence[AssignedTask], request: Content | None, notes: Sequence[HandoffNote]) -> Content:
    """Returns the message that opens an agent's turn.

    Args:
        tasks: The turn's tasks.
        request: The flow's request; None if the agent reads it in the log.
        notes: The notes of agents that ended their turns.
    """
    lines: list[str] = []
    more: list[Part] = []
    if request is not None and request.parts:
        lines += _under_heading("The request:", request.text)
        more += [part for part in request.parts if not isinstance(part, TextPart)]
    for task in tasks:
        lines += _task_lines(task)
    for note in notes:
        lines += _under_heading(f"{note.by} tells you:", note.content.text)
        more += [part for part in note.content.parts if not isinstance(part, TextPart)]
    return Content(role="user", parts=(TextPart(text="\n".join(lines)), *more))


def instructions(flow: str, tasks: Sequence[AssignedTask], others: Sequence[str]) -> str:
    """Returns the instructions on how to report the end of tasks. `others` are the flow's other agents."""
    names = ", ".join(repr(task.name) for task in tasks)
    subject = f"the task {names}" if len(tasks) == 1 else f"the tasks {names}"
    sentences = [
        f"You work in {flow!r}, on {subject}. A task is done only when you have called its {SUCCEEDED} tool with its result; "
        f"plain text does not end it. When it cannot be done, call {FAILED} with the reason."
    ]
    if others:
        sentences.append(
            f"When a colleague has to go on before your tasks are done, call {END_TURN}. Your colleagues: {', '.join(others)}."
        )
    return " ".join(sentences)


def part_instructions(others: Sequence[str]) -> str:
    """Returns the instructions for answering one part of a request. `others` answer the rest; may be empty."""
    if not others:
        return ""
    return (
        "The request asks several agents for something. Do and answer only what is yours in it; the rest is answered at the "
        f"same time by {', '.join(others)}."
    )


def result_text(value: JsonValue) -> str:
    """Returns a result as text: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _assigned(graph: Graph, progress: Progress, name: str) -> AssignedTask:
    task = graph.tasks[name]
    task_ends = ((need, progress.task_ends[need]) for need in graph.needs[name])
    given = {need: task_end.result for need, task_end in task_ends if task_end.status.is_success}
    return AssignedTask(name, task.objective, task.result.schema, given, task.interactive)


def _pool_text(request: SelectionRequest) -> str:
    """Returns the pool as text: `In the pool: a (2 ready tasks), b (1 ready task).`, or that there is no other agent."""
    if len(request.eligible) == 1:
        return "Nobody else has a ready task."
    agents = [f"{name} ({_count_text(request.tasks.get(name, 0))})" for name in request.eligible[:_AGENTS_SHOWN]]
    more = len(request.eligible) - len(agents)
    return f"In the pool: {', '.join(agents)}{f' and {more} more' if more else ''}."


def _only_reason(request: SelectionRequest) -> str:
    """Returns the reason for the only agent of the pool, where the strategy had no choice."""
    agent = request.eligible[0]
    tasks = request.tasks.get(agent, 0)
    return f"Only {agent} has a ready task." if tasks < 2 else f"Only {agent} has ready tasks, {tasks} of them."


def _count_text(tasks: int) -> str:
    return f"{tasks} ready task{'' if tasks == 1 else 's'}"


def _task_lines(task: AssignedTask) -> list[str]:
    """Returns the lines about one task: objective, schema of the result, results it builds on."""
    lines = [f"Your task {task.name!r}: {task.objective}".rstrip(": ")]
    if task.result is not None:
        lines.append(f"Its result has this JSON schema: {json.dumps(task.result, ensure_ascii=False)}")
    if task.given:
        lines.append("It builds on:")
        for name, value in task.given.items():
            lines += _under_heading(f"- {name}:", result_text(value))
    return lines


def _under_heading(heading: str, text: str) -> list[str]:
    """Puts a text after its heading: one line beside it, several lines indented below it.

    No line of the text can therefore look like a heading.
    """
    lines = text.splitlines()
    return [heading, *(f"    {line}" for line in lines)] if len(lines) > 1 else [f"{heading} {''.join(lines)}"]
