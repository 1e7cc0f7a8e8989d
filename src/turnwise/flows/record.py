"""What a session's log says of a flow: its tasks, its turns and why they went to whom, and how it ended. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from pydantic import JsonValue

from turnwise.facts.events import LIMIT, USER, Event, segment_of
from turnwise.flows.control.logged import FLOW, data_of, task_end_of
from turnwise.flows.plans.plan import graph_of
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import initial_progress, with_task_ended
from turnwise.flows.tasks.task import Status

BAD_ENDS = frozenset({"failed", "stuck", "cancelled", "blocked", "loop"})
"""The ends that are a failure, limits aside: the flow's own, and those of its invocation."""


class TaskRecord(NamedTuple):
    """What became of a task. by: who is at work on it, or ended it; empty = nobody. turns: the numbers of those that it was
    given to, in order.
    """

    name: str
    status: Status = Status.PENDING
    by: str = ""
    result: JsonValue = None
    reason: str = ""
    turns: tuple[int, ...] = ()


class TurnRecord(NamedTuple):
    """One agent's turn. method, reason: why it got it; empty when the log has lost it. question: what the user is asked, and
    has not answered yet; None = nothing.
    """

    number: int
    agent: str
    tasks: tuple[str, ...]
    method: str = ""
    reason: str = ""
    is_over: bool = False
    question: str | None = None


class FlowRecord(NamedTuple):
    """One run of a flow, as far as it came. tasks: all of the graph, in the order they were made. end: why it ended; None while
    it goes on, or waits. detail: more about an end that is a failure. answer: its last word. model_calls: known at the end.
    """

    flow: str
    invocation_id: str
    tasks: Mapping[str, TaskRecord]
    turns: tuple[TurnRecord, ...] = ()
    end: str | None = None
    detail: str = ""
    answer: str = ""
    model_calls: int = 0

    @property
    def is_good(self) -> bool:
        """Whether it did not end badly, as far as it came."""
        return self.end is None or not (self.end in BAD_ENDS or self.end.startswith(LIMIT))

    @property
    def at_work(self) -> tuple[TurnRecord, ...]:
        """The turns that are not over."""
        return tuple(turn for turn in self.turns if not turn.is_over)


class UnplannedRun(NamedTuple):
    """A run that did not say what its tasks are. end: why its invocation ended; None while that is open. asked_by, question:
    who asks the user, and what; None = nothing.
    """

    flow: str
    invocation_id: str
    end: str | None = None
    detail: str = ""
    asked_by: str = ""
    question: str | None = None


class FlowReader:
    """Reads a flow's runs out of a log, event by event, in its order and without what rewinds hide. The last is the one that
    the flow said something in last.

    graph: its tasks; None = each run says its own, as a plan. What is said of tasks that it does not have is passed over.
    """

    def __init__(self, flow: str, graph: Graph | None = None) -> None:
        self._flow, self._known = flow, graph
        self._runs: dict[tuple[str, str], _Run] = {}
        """The last one, at the end, and those that may still go on, by their places."""
        self._unplanned: UnplannedRun | None = None

    @property
    def record(self) -> FlowRecord | None:
        """The last run that said what its tasks are, as far as it was read; None before there is one."""
        return next(reversed(self._runs.values())).record() if self._runs else None

    @property
    def graph(self) -> Graph | None:
        """The tasks of that run; before it, those that are known."""
        return next(reversed(self._runs.values())).graph if self._runs else self._known

    @property
    def unplanned(self) -> UnplannedRun | None:
        """A run that began after that one, and has said no tasks; None when there is none. Who chose the flow is on record:
        where it runs without that, as in a sequence, only its plan tells that it does.
        """
        return self._unplanned

    def is_told(self, event: Event) -> bool:
        """Whether it is the flow that says this, in a run that was read: what others say of it in their own name is not so."""
        run = self._runs.get((event.invocation_id, event.branch))
        return run is not None and run.is_told(event)

    def add(self, event: Event) -> None:
        """Reads on. Partial events say nothing."""
        if event.partial:
            return
        if self._known is None:
            self._read_before_the_plan(event)
        if event.author == self._flow and event.content is not None:
            self._spoke(event)
        for run in self._runs.values():
            if event.invocation_id == run.place[0]:
                run.add(event)

    def _spoke(self, event: Event) -> None:
        place = (event.invocation_id, event.branch)
        run = self._runs.pop(place, None)
        if run is None:
            graph = self._known or graph_of(self._flow, event)
            if graph is None:
                return
            self._runs = {at: other for at, other in self._runs.items() if not other.is_over}
            run = _Run(graph, *place)
        self._runs[place] = run
        self._unplanned = None

    def _read_before_the_plan(self, event: Event) -> None:
        id_, actions = event.invocation_id, event.actions
        if actions.selection is not None and actions.selection.agent == self._flow:
            is_answer = event.author == USER and any(place[0] == id_ for place in self._runs)
            self._unplanned = self._unplanned if is_answer else UnplannedRun(self._flow, id_)
        if self._unplanned is None or self._unplanned.invocation_id != id_:
            return
        if actions.awaits is not None:
            self._unplanned = self._unplanned._replace(asked_by=event.author, question=event.text)
        if actions.end is not None:
            self._unplanned = self._unplanned._replace(end=actions.end.reason, detail=actions.end.detail, question=None)


class _Run:
    """One run of a flow, on one branch of an invocation."""

    def __init__(self, graph: Graph, invocation_id: str, branch: str) -> None:
        self.place, self.graph = (invocation_id, branch), graph
        self._below = f"{branch}/"
        self._progress = initial_progress(graph)
        self._turns: dict[int, TurnRecord] = {}
        self._waits: dict[str, int] = {}
        self._told: Mapping[str, JsonValue] = {}
        self._answer = self._end = self._detail = ""

    @property
    def is_over(self) -> bool:
        return bool(self._end)

    def is_told(self, event: Event) -> bool:
        """Whether the flow says this of itself in this run."""
        return event.author == self.graph.flow and (event.invocation_id, event.branch) == self.place

    def add(self, event: Event) -> None:
        if event.author == USER:
            self._answered(event)
        elif self.is_told(event):
            self._own(event)
        elif event.branch.startswith(self._below):
            self._of_turn(event)
        for branch in event.actions.finished:
            place = branch.removeprefix(self._below)
            if place != branch and _is_whole_turn(place):
                self._changed(_turn_number(place), is_over=True)
        if (end := event.actions.end) is not None:
            self._end = self._end or end.reason
            self._detail = end.detail

    def _own(self, event: Event) -> None:
        tasks, selection = _tasks(event, self.graph.flow), event.actions.selection
        if event.content is not None and not event.content.parts and tasks:
            number = max(self._turns, default=0) + 1
            why = (selection.agent, tasks, selection.method, selection.reason) if selection is not None else ("", tasks)
            self._turns[number] = TurnRecord(number, *why)
        if closing := task_end_of(event):
            if closing.task not in self.graph.tasks and len(tasks) == 1:  # guardrails rewrite words, and leave the label
                closing = closing.model_copy(update={"task": tasks[0]})
            self._progress = with_task_ended(self.graph, self._progress, closing)
        if told := data_of(event, FLOW):
            self._told, self._answer, self._end = told, event.text, str(told.get("reason", ""))

    def _of_turn(self, event: Event) -> None:
        """An event of an agent at work: in a new attempt, only these say whose turn it is."""
        number = _turn_number(event.branch[len(self._below) :])
        if number is None or number not in self._turns:
            return
        if not self._turns[number].agent:
            self._changed(number, agent=_agent(event.branch[len(self._below) :]))
        if event.actions.awaits is not None:
            self._waits[event.actions.awaits.id] = number
            self._changed(number, question=event.text)

    def _answered(self, event: Event) -> None:
        results = event.content.tool_results if event.content else ()
        for id_ in (event.actions.answers, *(result.call_id for result in results)):
            if id_ in self._waits:
                self._changed(self._waits.pop(id_), question=None)

    def _changed(self, number: int | None, **changes: object) -> None:
        if number is not None and number in self._turns:
            self._turns[number] = self._turns[number]._replace(**changes)  # type: ignore[arg-type]

    def record(self) -> FlowRecord:
        turns = tuple(self._as_it_stands(turn) for _, turn in sorted(self._turns.items()))
        calls = self._told.get("model_calls")
        return FlowRecord(
            self.graph.flow,
            self.place[0],
            self._tasks(turns),
            turns,
            self._end or None,
            self._detail,
            self._answer,
            calls if isinstance(calls, int) else 0,
        )

    def _as_it_stands(self, turn: TurnRecord) -> TurnRecord:
        """A turn is over with the flow, or when nothing is left to do in it."""
        is_over = turn.is_over or bool(self._end) or all(task in self._progress.closings for task in turn.tasks)
        return turn._replace(is_over=is_over, question=None if is_over else turn.question)

    def _tasks(self, turns: Iterable[TurnRecord]) -> dict[str, TaskRecord]:
        given: dict[str, list[TurnRecord]] = {}
        for turn in turns:
            for name in turn.tasks:
                given.setdefault(name, []).append(turn)
        return {name: self._task(name, given.get(name, [])) for name in self.graph.tasks}

    def _task(self, name: str, turns: Sequence[TurnRecord]) -> TaskRecord:
        numbers = tuple(turn.number for turn in turns)
        if closing := self._progress.closings.get(name):
            return TaskRecord(name, closing.status, closing.by, closing.result, closing.reason, numbers)
        at_work = next((turn.agent for turn in turns if not turn.is_over), None)
        if at_work is not None:
            return TaskRecord(name, Status.RUNNING, at_work, turns=numbers)
        return TaskRecord(name, turns=numbers)


def _tasks(event: Event, flow: str) -> tuple[str, ...]:
    """The tasks of that flow by whose labels the event is labelled: a label is flows and tasks by turns, joined by `/`."""
    found: dict[str, None] = {}
    for label in event.scope:
        parts = label.split("/")
        for above, name in zip(parts[::2], parts[1::2], strict=False):
            if above == segment_of(flow):
                found[unquote(name)] = None
    return tuple(found)


def _turn_number(place: str) -> int | None:
    """The number of the turn that this part of a branch belongs to: `agent#3`, or `turn#3/~agent#3` for one beside others."""
    number = place.partition("/")[0].rpartition("#")[2]
    return int(number) if number.isdecimal() else None


def _agent(place: str) -> str:
    """Whose turn it is on that part of a branch."""
    first, _, second = place.partition("/")
    agent = second.partition("/")[0].removeprefix("~") if first.startswith("turn#") and second.startswith("~") else first
    return unquote(agent.rpartition("#")[0])


def _is_whole_turn(place: str) -> bool:
    """Whether this part of a branch is a turn's itself, not that of an agent below its own."""
    first, _, second = place.partition("/")
    return not second or (second.startswith("~") and "/" not in second and second.endswith(first.removeprefix("turn")))
