"""The assignment of one turn: its tasks, and the tools that report how they ended (behaviours D3, D6)."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal

from pydantic import JsonValue

from turnwise.facts.content import Content, text_content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import Event
from turnwise.flows.logged import TurnEnd, redacted_task_end, task_end_content, turn_end_content, turn_end_of
from turnwise.flows.tasks import Graph, Status, Task, TaskEnd
from turnwise.flows.turns import END_TURN, FAILED, SUCCEEDED, HandoffNote, Labels, Turn, instructions, part_instructions
from turnwise.ports.assignment import AssignedTask, Assignment, Scope
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.tool import Tool, ToolCall, ToolRules, ToolSpec
from turnwise.tools.built_in import ask_user
from turnwise.tools.names import tool_name

_TOOL_RULES = ToolRules(recorded=False, last=True, private=True)
REASON_CHARACTERS = 2_000
EndMode = Literal["close", "settle"]
"""How a task was ended."""
END_MODES: Sequence[EndMode] = ("close", "settle")
"""A task is ended by the agent during its turn (`close`), or by the flow when the agent's run is over (`settle`)."""


@dataclass(frozen=True, slots=True)
class FlowRunState:
    """The state that all turns of one run share."""

    context: AgentContext
    graph: Graph
    labels: Labels
    waiting: Callable[[Sequence[TaskEnd]], Sequence[str]]
    """Returns the agents that would have ready tasks if these tasks ended too."""
    colleagues: Sequence[str]
    """The names of all agents of the flow."""
    relays: bool = False
    """As in Design."""

    @property
    def flow(self) -> str:
        """The flow's name."""
        return self.context.card.name


class TurnAssignment:
    """The assignment of one turn; implements `ports.assignment.Assignment`. The end of a task is recorded at once.

    Args:
        state: The state of the flow's run.
        turn: The turn.
        runs_again: True if all actions of the agent are recorded, as for one with a model. After a crash such an agent
            runs again and replays its recorded actions. The recorded end of a task then does not end its turn before
            the replay reaches it.
    """

    def __init__(self, state: FlowRunState, turn: Turn, *, runs_again: bool = False) -> None:
        self._state, self._turn, self._runs_again = state, turn, runs_again
        self.task_ends: dict[str, TaskEnd] = {}
        self.ended: TurnEnd | None = None
        self._unreplayed: set[str] = set()
        """Tasks with a recorded end that the replay has not reached yet."""
        self._end_is_unreplayed = False
        self._attempts: dict[tuple[EndMode, str], int] = {}
        self._unsure: set[str] = set()
        """Tasks with an interrupted recording of their end: it may be stored."""
        self._lock = asyncio.Lock()
        self._is_closed = False

    @property
    def by(self) -> str:
        return self._state.flow

    @property
    def giver(self) -> str | None:
        if not self._state.relays:
            return self.by
        outer = self._state.context.assignment
        return outer.giver if outer is not None else None

    @property
    def request(self) -> Content:
        return self._state.context.message

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        return self._turn.tasks

    @property
    def scope(self) -> Scope:
        return self._turn.scope

    @property
    def is_over(self) -> bool:
        if self.ended is not None and not self._end_is_unreplayed:
            return True
        return len(self.task_ends) == len(self.tasks) and self._unreplayed.isdisjoint(self.task_ends)

    @cached_property
    def instructions(self) -> str:
        return part_instructions(self._others) if self._state.relays else instructions(self.by, self.tasks, self._others)

    @cached_property
    def tools(self) -> Sequence[Tool]:
        if self._state.relays:
            return ()
        return task_tools(self, [self._state.graph.tasks[task.name] for task in self.tasks], self._others)

    async def restore(self) -> None:
        """Loads the recorded ends of this turn and of its tasks."""
        for task in self.tasks:
            task_end, mode = await self._recorded(task.name)
            if task_end is not None:
                self.task_ends[task.name] = task_end
                if self._runs_again and mode == "close":
                    self._unreplayed.add(task.name)
        await self._load_turn_end()
        self._end_is_unreplayed = self.ended is not None and self._runs_again

    async def close(self) -> None:
        """Closes the assignment after the turn. Waits for recordings in progress; later calls raise ToolFailed."""
        self._is_closed = True
        async with self._lock:
            for name in tuple(self._unsure):
                await self._reload_unsure(name)
            await self._load_turn_end()

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        name = self._task_name(task)
        await self._record_end("close", self._success(name, self._state.graph.tasks[name].result.checked(result)))

    async def answer(self, text: str, data: JsonValue) -> None:
        """Uses the agent's final answer as the result of the first open task."""
        name = next((task.name for task in self.tasks if task.name not in self.task_ends), self.tasks[0].name)
        try:
            await self._record_end("settle", self._success(name, self._state.graph.tasks[name].result.of_answer(text, data)))
        except ToolFailed as error:
            await self.fail_all(str(error))

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        await self._record_end("close", _failure(self._task_name(task), reason))

    async def fail_all(self, reason: str) -> None:
        """Fails all open tasks."""
        for task in self.tasks:
            try:
                await self._record_end("settle", _failure(task.name, reason))
            except ToolFailed as error:
                if task.name not in self.task_ends:  # a guardrail blocked the reason
                    await self._record_end("settle", _failure(task.name, str(error)))

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        """Ends the turn, with the agent that should go next and a note for it. Recorded once."""
        content = text_content(message) if isinstance(message, str) else message
        ended = TurnEnd(next, HandoffNote(self._turn.agent, content) if content is not None and content.parts else None)

        async def make(_: Show) -> Event:
            event = self._state.context.event(turn_end_content(self.by, self._turn.agent, ended), checkpoint=True)
            return event.replace(scope=(self._state.labels.own,))

        async with self._lock:
            self._check_open()
            if self._end_key not in self._state.context.recorded:
                self._check_next(next)
            self.ended = self._turn_end(await self._state.context.once(self._end_key, make))
            self._end_is_unreplayed = False

    @property
    def _others(self) -> Sequence[str]:
        return [name for name in self._state.colleagues if name != self._turn.agent]

    @property
    def _end_key(self) -> str:
        return f"end#{self._turn.number}"

    def _task_name(self, task: str | None) -> str:
        """Returns the name of the task that the agent refers to."""
        names = [each.name for each in self.tasks]
        if task is None and len(names) > 1:
            raise ToolFailed("You have several tasks.", fix=f"Say which: {', '.join(names)}.")
        name = names[0] if task is None else task
        if name not in names:
            raise ToolFailed(f"{name[:64]!r} is no task of yours.", fix=f"Yours: {', '.join(names)}.")
        return name

    def _check_next(self, named: str | None) -> None:
        candidates = self._state.waiting(tuple(self.task_ends.values()))
        if named is not None and named not in candidates:
            listed = ", ".join(candidates) or "nobody"
            raise ToolFailed(f"{named[:64]!r} has nothing to do in {self.by!r} now.", fix=f"Those who have: {listed}.")

    def _success(self, name: str, result: JsonValue) -> TaskEnd:
        """Builds the end of a successful task. Raises ToolFailed if the result is too large."""
        most = self._state.context.config.limits.message_bytes
        size = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > most:
            raise ToolFailed(f"The result has {size:,} bytes, {most:,} are allowed.", fix="Save it as an artifact.")
        return TaskEnd(task=name, status=Status.SUCCESSFUL, result=result)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ToolFailed(f"The turn of {self._turn.agent!r} is over.")

    async def _record_end(self, mode: EndMode, task_end: TaskEnd) -> None:
        """Records the end of a task. Raises ToolFailed if it has ended before, or if a guardrail blocks the result."""
        name = task_end.task
        async with self._lock:
            self._check_open()
            await self._reload_unsure(name)
            if name in self.task_ends and (mode == "settle" or name not in self._unreplayed):
                raise ToolFailed(f"The task {name!r} is {self.task_ends[name].status} already.")
            self._unsure.add(name)
            await self._emit_end(mode, self._with_turn(task_end))
            self._unsure.discard(name)
            self._unreplayed.discard(name)

    async def _reload_unsure(self, name: str) -> None:
        """Loads an end that may have been recorded just before an interruption."""
        if name in self._unsure and name not in self.task_ends:
            task_end, _ = await self._recorded(name)
            if task_end is not None:
                self.task_ends[name] = task_end
        self._unsure.discard(name)

    async def _load_turn_end(self) -> None:
        if self.ended is None and self._end_key in self._state.context.recorded:
            self.ended = self._turn_end(await self._state.context.once(self._end_key, _never))

    async def _emit_end(self, mode: EndMode, task_end: TaskEnd) -> None:
        """Records the end of the task, or replays the recorded one."""
        number = self._attempts.get((mode, task_end.task), 0) + 1
        key = self._close_key(mode, number, task_end)
        if task_end.task in self._unreplayed and key not in self._state.context.recorded:
            return  # the replay ends it differently: the recorded end stays

        async def make(_: Show) -> Event:
            event = self._state.context.event(task_end_content(self.by, task_end), checkpoint=True)
            return event.replace(scope=(self._state.labels.of(task_end.task),))

        event = await self._state.context.once(key, make)
        self._attempts[mode, task_end.task] = number
        rewritten = self._after_guardrails(event, task_end)
        if rewritten is None:
            by = repr(event.actions.guarded[-1].guardrail) if event.actions.guarded else "a guardrail"
            raise ToolFailed(f"The result was blocked by {by}.", fix="Leave out what it must not hold.")
        self.task_ends[task_end.task] = rewritten

    def _after_guardrails(self, event: Event, task_end: TaskEnd) -> TaskEnd | None:
        """Returns the end as guardrails rewrote it; None if it is not valid any more."""
        rewritten = redacted_task_end(event, task_end)
        if rewritten is not None and rewritten.status is Status.SUCCESSFUL and event.actions.guarded:
            try:
                return rewritten.replace(result=self._state.graph.tasks[rewritten.task].result.checked(rewritten.result))
            except ToolFailed:
                return None
        return rewritten

    def _turn_end(self, event: Event) -> TurnEnd:
        """Returns the end of the turn; a guardrail may have removed the named agent and the note."""
        ended = turn_end_of(event) or TurnEnd()
        return ended._replace(note=ended.note and ended.note._replace(by=self._turn.agent))

    def _with_turn(self, task_end: TaskEnd) -> TaskEnd:
        return task_end.replace(by=self._turn.agent, turn=self._turn.number)

    def _close_key(self, mode: EndMode, number: int, task_end: TaskEnd) -> str:
        return f"{mode}#{self._turn.number}.{number}.{task_end.status}:{task_end.task}"

    async def _recorded(self, name: str) -> tuple[TaskEnd | None, EndMode]:
        """Returns the recorded end of the task in this turn, and the mode; None if there is none."""
        ends = [self._with_turn(TaskEnd(task=name, status=status)) for status in (Status.SUCCESSFUL, Status.FAILED)]
        for mode in END_MODES:
            for number in count(1):
                keys = {self._close_key(mode, number, end): end for end in ends}
                recorded_keys = [key for key in keys if key in self._state.context.recorded]
                for key in recorded_keys:
                    rewritten = self._after_guardrails(await self._state.context.once(key, _never), keys[key])
                    if rewritten is not None:
                        return rewritten, mode
                if not recorded_keys:
                    break
        return None, "close"


def task_tools(assignment: Assignment, tasks: Sequence[Task], others: Sequence[str]) -> Sequence[Tool]:
    """Returns the tools of one turn.

    Args:
        assignment: The turn's assignment.
        tasks: The turn's tasks.
        others: The flow's other agents, which may get the next turn.
    """
    alone = len(tasks) == 1
    tools: list[Tool] = [SuccessTool(assignment, task, alone=alone) for task in tasks]
    tools.append(FailureTool(assignment, [task.name for task in tasks]))
    if others:
        tools.append(EndTurnTool(assignment, others))
    if any(task.interactive for task in tasks):
        tools.append(ask_user)
    for task in tasks:
        tools += [tool for tool in task.tools if tool not in tools]
    return tools


class SuccessTool:
    """Ends one task with its result. `alone` is true if the turn has no other task."""

    def __init__(self, assignment: Assignment, task: Task, *, alone: bool) -> None:
        self._assignment, self._task = assignment, task.name
        self.rules = _TOOL_RULES
        self.spec = ToolSpec(
            name=SUCCEEDED if alone else tool_name(task.name, f"{SUCCEEDED}_"),
            description=f"The task {task.name!r} is done; this is its result.",
            parameters=dict(task.result.parameters),
        )

    async def run(self, call: ToolCall) -> JsonValue:
        if "result" not in call.arguments:
            raise ToolFailed("There is no 'result'.", fix="Call it again with one.")
        await self._assignment.succeed(call.arguments["result"], task=self._task)
        return "Taken."


class FailureTool:
    """Ends a task without a result."""

    def __init__(self, assignment: Assignment, tasks: Sequence[str]) -> None:
        self._assignment, self._only = assignment, tasks[0] if len(tasks) == 1 else None
        self.rules = _TOOL_RULES
        which: dict[str, Any] = {} if self._only else {"task": {"type": "string", "enum": list(tasks)}}
        reason = {"type": "string", "minLength": 1, "description": "Why."}
        self.spec = ToolSpec(
            name=FAILED,
            description="A task cannot be done. Call it only when there is nothing more to try.",
            parameters=_object({**which, "reason": reason}, required=[*which, "reason"]),
        )

    async def run(self, call: ToolCall) -> JsonValue:
        task = self._only or _text(call.arguments, "task")
        await self._assignment.fail(_text(call.arguments, "reason"), task=task)
        return "Taken."


class EndTurnTool:
    """Ends the turn before its tasks are done, so another agent continues."""

    def __init__(self, assignment: Assignment, others: Sequence[str]) -> None:
        self._assignment = assignment
        self.rules = _TOOL_RULES
        self.spec = ToolSpec(
            name=END_TURN,
            description="Ends your turn before your tasks are done: a colleague goes on.",
            parameters=_object(
                {
                    "next": {"type": "string", "enum": list(others), "description": "Who. Leave it out to have it decided."},
                    "message": {"type": "string", "description": "What they have to know to go on."},
                },
                required=[],
            ),
        )

    async def run(self, call: ToolCall) -> JsonValue:
        """Ends the turn for the agent's model."""
        named = call.arguments.get("next")
        message = call.arguments.get("message")
        await self._assignment.end_turn(
            next=named if isinstance(named, str) and named else None,
            message=message if isinstance(message, str) and message else None,
        )
        return "Your turn is over."


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(arguments: Mapping[str, JsonValue], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise ToolFailed(f"{name!r} has to be a text.", fix="Call it again with one.")
    return value


def _failure(name: str, reason: str) -> TaskEnd:
    return TaskEnd(task=name, status=Status.FAILED, reason=reason[:REASON_CHARACTERS])


async def _never(_: Show) -> Event:
    raise AssertionError("It is on record.")
