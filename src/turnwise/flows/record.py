"""Rebuilds a flow's run from the session log: its tasks, its turns with their reasons, and its end. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from pydantic import JsonValue

from turnwise.facts.events import LIMIT, USER, Branch, Event, name_of, segment_of
from turnwise.flows.logged import FLOW, data_of, task_end_of
from turnwise.flows.plan import graph_of
from turnwise.flows.tasks import Graph, Status, initial_progress, with_task_ended

BAD_ENDS = frozenset({"failed", "stuck", "cancelled", "blocked", "loop"})
"""The end reasons that are failures, besides limits: those of the flow and of its invocation."""


class TaskRecord(NamedTuple):
    """The state of one task."""

    name: str
    status: Status = Status.PENDING
    by: str = ""
    """The agent that works on it or ended it; empty if there is none."""
    result: JsonValue = None
    reason: str = ""
    turns: tuple[int, ...] = ()
    """The numbers of the turns in which the task was assigned, in order."""


class TurnRecord(NamedTuple):
    """One turn of an agent."""

    number: int
    agent: str
    tasks: tuple[str, ...]
    method: str = ""
    """How the agent was picked; empty if the log no longer contains it."""
    reason: str = ""
    """Why the agent was picked; empty if the log no longer contains it."""
    is_over: bool = False
    question: str | None = None
    """The open question to the user; None if there is none."""


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """The progress of one run of a flow."""

    flow: str
    invocation_id: str
    tasks: Mapping[str, TaskRecord]
    """All tasks of the graph, in the order of their creation."""
    turns: tuple[TurnRecord, ...] = ()
    end: str | None = None
    """The reason why the run ended; None while it runs or waits."""
    detail: str = ""
    """Details of a failure."""
    answer: str = ""
    """The flow's answer."""
    model_calls: int = 0
    """The number of model calls; known once the run has ended."""

    @property
    def is_good(self) -> bool:
        """True unless the run has failed or reached a limit."""
        return self.end is None or not (self.end in BAD_ENDS or self.end.startswith(LIMIT))

    @property
    def at_work(self) -> tuple[TurnRecord, ...]:
        """The turns that are not over."""
        return tuple(turn for turn in self.turns if not turn.is_over)


@dataclass(frozen=True, slots=True)
class UnplannedRun:
    """A run that has not recorded its tasks yet."""

    flow: str
    invocation_id: str
    end: str | None = None
    """The reason why its invocation ended; None while it is open."""
    detail: str = ""
    asked_by: str = ""
    """The agent that asks the user; empty if there is no question."""
    question: str | None = None
    """The open question to the user; None if there is none."""


class FlowReader:
    """Reads a flow's runs from a log: add the events in order, without those that rewinds hide.

    The latest run is the one with the flow's newest event.

    Args:
        flow: The flow's name.
        graph: The flow's tasks; None if each run records a plan. Events about other tasks are ignored.
    """

    def __init__(self, flow: str, graph: Graph | None = None) -> None:
        self._flow, self._known_graph = flow, graph
        self._runs: dict[tuple[str, str], _Run] = {}
        """The runs that may still continue, by place; the latest run is the last."""
        self._unplanned: UnplannedRun | None = None

    @property
    def record(self) -> FlowRecord | None:
        """The latest run that has recorded its tasks; None before there is one."""
        return next(reversed(self._runs.values())).record() if self._runs else None

    @property
    def graph(self) -> Graph | None:
        """The tasks of that run; before it, the known tasks."""
        return next(reversed(self._runs.values())).graph if self._runs else self._known_graph

    @property
    def unplanned(self) -> UnplannedRun | None:
        """A later run that has not recorded its tasks; None if there is none.

        Such a run is known by the selection that chose the flow. A flow that runs without a selection, as in a
        sequence, is visible only from its plan on.
        """
        return self._unplanned

    def is_own_event(self, event: Event) -> bool:
        """Checks whether the flow itself emitted the event, in a run that was read. Events of its agents do not count."""
        run = self._runs.get((event.invocation_id, event.branch))
        return run is not None and run.is_own_event(event)

    def add(self, event: Event) -> None:
        """Reads the next event; partial events are ignored."""
        if event.partial:
            return
        if self._known_graph is None:
            self._track_unplanned(event)
        if event.author == self._flow and event.content is not None:
            self._add_own_event(event)
        for run in self._runs.values():
            if event.invocation_id == run.place[0]:
                run.add(event)

    def _add_own_event(self, event: Event) -> None:
        """Starts the record of the run that the flow's own event belongs to. Runs that are over are dropped."""
        place = (event.invocation_id, event.branch)
        run = self._runs.pop(place, None)
        if run is None:
            graph = self._known_graph or graph_of(self._flow, event)
            if graph is None:
                return
            self._runs = {at: other for at, other in self._runs.items() if not other.is_over}
            run = _Run(graph, *place)
        self._runs[place] = run
        self._unplanned = None

    def _track_unplanned(self, event: Event) -> None:
        """Follows an invocation of the flow before its tasks are planned."""
        id_, actions = event.invocation_id, event.actions
        if actions.selection is not None and actions.selection.agent == self._flow:
            is_answer = event.author == USER and any(place[0] == id_ for place in self._runs)
            self._unplanned = self._unplanned if is_answer else UnplannedRun(self._flow, id_)
        if self._unplanned is None or self._unplanned.invocation_id != id_:
            return
        if actions.awaits is not None:
            self._unplanned = replace(self._unplanned, asked_by=event.author, question=event.text)
        if actions.end is not None:
            self._unplanned = replace(self._unplanned, end=actions.end.reason, detail=actions.end.detail, question=None)


class _Run:
    """One run of a flow, on one branch of an invocation."""

    def __init__(self, graph: Graph, invocation_id: str, branch: Branch) -> None:
        self.place, self.graph = (invocation_id, branch), graph
        self._progress = initial_progress(graph)
        self._turns: dict[int, TurnRecord] = {}
        self._turn_by_question: dict[str, int] = {}
        self._result_data: Mapping[str, JsonValue] = {}
        self._answer = self._end = self._detail = ""

    @property
    def is_over(self) -> bool:
        return bool(self._end)

    def is_own_event(self, event: Event) -> bool:
        """Checks whether the flow emitted this event in this run."""
        return event.author == self.graph.flow and (event.invocation_id, event.branch) == self.place

    def add(self, event: Event) -> None:
        """Applies one event to the run."""
        if event.author == USER:
            self._apply_reply(event)
        elif self.is_own_event(event):
            self._apply_own_event(event)
        elif (place := event.branch.below(self.place[1])) is not None:
            self._apply_turn_event(event, place)
        for branch in event.actions.finished:
            place = branch.below(self.place[1])
            if place is not None and _is_whole_turn(place):
                self._update_turn(_turn_number(place), is_over=True)
        if (end := event.actions.end) is not None:
            self._end = self._end or end.reason
            self._detail = end.detail

    def _apply_own_event(self, event: Event) -> None:
        """Applies an event of the flow itself: a turn's start, a task's end, or the result."""
        tasks, selection = _labelled_tasks(event, self.graph.flow), event.actions.selection
        if event.content is not None and not event.content.parts and tasks:
            number = max(self._turns, default=0) + 1
            fields = (selection.agent, tasks, selection.method, selection.reason) if selection is not None else ("", tasks)
            self._turns[number] = TurnRecord(number, *fields)
        if task_end := task_end_of(event):
            if task_end.task not in self.graph.tasks and len(tasks) == 1:  # guardrails rewrite the content but not the label
                task_end = task_end.replace(task=tasks[0])
            self._progress = with_task_ended(self.graph, self._progress, task_end)
        if data := data_of(event, FLOW):
            self._result_data, self._answer, self._end = data, event.text, str(data.get("reason", ""))

    def _apply_turn_event(self, event: Event, place: Branch) -> None:
        """Applies an event of a working agent. In a new attempt, only these events show which agent has the turn."""
        number = _turn_number(place)
        if number is None or number not in self._turns:
            return
        if not self._turns[number].agent:
            self._update_turn(number, agent=_agent(place))
        if event.actions.awaits is not None:
            self._turn_by_question[event.actions.awaits.id] = number
            self._update_turn(number, question=event.text)

    def _apply_reply(self, event: Event) -> None:
        results = event.content.tool_results if event.content else ()
        for id_ in (event.actions.answers, *(result.call_id for result in results)):
            if id_ in self._turn_by_question:
                self._update_turn(self._turn_by_question.pop(id_), question=None)

    def _update_turn(self, number: int | None, **changes: object) -> None:
        if number is not None and number in self._turns:
            self._turns[number] = self._turns[number]._replace(**changes)  # type: ignore[arg-type]

    def record(self) -> FlowRecord:
        """Returns the record of the run so far."""
        turns = tuple(self._with_state(turn) for _, turn in sorted(self._turns.items()))
        calls = self._result_data.get("model_calls")
        return FlowRecord(
            self.graph.flow,
            self.place[0],
            self._task_records(turns),
            turns,
            self._end or None,
            self._detail,
            self._answer,
            calls if isinstance(calls, int) else 0,
        )

    def _with_state(self, turn: TurnRecord) -> TurnRecord:
        """Returns the turn with its state: it is over when the flow is over or all its tasks have ended."""
        is_over = turn.is_over or bool(self._end) or all(task in self._progress.task_ends for task in turn.tasks)
        return turn._replace(is_over=is_over, question=None if is_over else turn.question)

    def _task_records(self, turns: Iterable[TurnRecord]) -> dict[str, TaskRecord]:
        turns_by_task: dict[str, list[TurnRecord]] = {}
        for turn in turns:
            for name in turn.tasks:
                turns_by_task.setdefault(name, []).append(turn)
        return {name: self._task(name, turns_by_task.get(name, [])) for name in self.graph.tasks}

    def _task(self, name: str, turns: Sequence[TurnRecord]) -> TaskRecord:
        """Returns a task's record: ended, running, or pending."""
        numbers = tuple(turn.number for turn in turns)
        if task_end := self._progress.task_ends.get(name):
            return TaskRecord(name, task_end.status, task_end.by, task_end.result, task_end.reason, numbers)
        at_work = next((turn.agent for turn in turns if not turn.is_over), None)
        if at_work is not None:
            return TaskRecord(name, Status.RUNNING, at_work, turns=numbers)
        return TaskRecord(name, turns=numbers)


def _labelled_tasks(event: Event, flow: str) -> tuple[str, ...]:
    """Returns that flow's tasks in the event's labels. A label alternates flows and tasks, joined by `/`."""
    names: dict[str, None] = {}
    for label in event.scope:
        parts = label.split("/")
        for owner, name in zip(parts[::2], parts[1::2], strict=False):
            if owner == segment_of(flow):
                names[unquote(name)] = None
    return tuple(names)


def _turn_number(place: Branch) -> int | None:
    """Returns the number of the turn in a branch part: `agent#3`, or `turn#3/~agent#3` for a concurrent turn."""
    number = place.segments[0].rpartition("#")[2]
    return int(number) if number.isdecimal() else None


def _agent(place: Branch) -> str:
    """Returns the agent of the turn that this branch part names."""
    return name_of(place.segments[1] if _is_concurrent(place) else place.segments[0])


def _is_concurrent(place: Branch) -> bool:
    first, *below = place.segments
    return bool(below) and first.startswith("turn#") and below[0].startswith("~")


def _is_whole_turn(place: Branch) -> bool:
    """Checks whether the branch part is a turn itself, not an agent below the turn's agent."""
    first, *below = place.segments
    return not below or (len(below) == 1 and below[0].startswith("~") and below[0].endswith(first.removeprefix("turn")))
