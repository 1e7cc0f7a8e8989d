"""An agent's part in a flow, for one turn: what it is to do, and how it says that it is done (behaviours D3, D6)."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, text_content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import Event
from turnwise.flows.control.logged import TurnEnd, redacted_task_end, task_end_content, turn_end_content, turn_end_of
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import TaskEnd
from turnwise.flows.tasks.task import Status, Task
from turnwise.flows.turns.briefs import END_TURN, FAILED, SUCCEEDED, HandoffNote, instructions, part_instructions
from turnwise.flows.turns.turn import Labels, Turn
from turnwise.ports.assignment import AssignedTask, Assignment, Scope
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.tool import Tool, ToolCall, ToolRules, ToolSpec
from turnwise.tools.ask import ask_user
from turnwise.tools.names import tool_name

_RULES = ToolRules(recorded=False, last=True, private=True)


def task_tools(assignment: Assignment, tasks: Sequence[Task], others: Sequence[str]) -> Sequence[Tool]:
    """The tools for one turn. tasks: what it is about; others: who else works in the flow, to whom the turn may go."""
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
    """Ends one task with its result. alone: the agent has no other task."""

    def __init__(self, assignment: Assignment, task: Task, *, alone: bool) -> None:
        self._assignment, self._task = assignment, task.name
        self.rules = _RULES
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
        self.rules = _RULES
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
    """Lets a colleague go on."""

    def __init__(self, assignment: Assignment, others: Sequence[str]) -> None:
        self._assignment = assignment
        self.rules = _RULES
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


REASON_CHARACTERS = 2_000
Way = Literal["close", "settle"]
WAYS: Sequence[Way] = ("close", "settle")
"""Who ends a task: the agent, while it is at work, or the flow for it, when its run is over."""


class FlowRunState(NamedTuple):
    """What all turns of one run of a flow share. waiting: who would have something to do once these tasks ended too.
    colleagues: who works in the flow at all. relays: as of Design.
    """

    context: AgentContext
    graph: Graph
    labels: Labels
    waiting: Callable[[Sequence[TaskEnd]], Sequence[str]]
    colleagues: Sequence[str]
    relays: bool = False

    @property
    def flow(self) -> str:
        """The flow's name."""
        return self.context.card.name


class TurnAssignment:
    """One turn's assignment (implements `ports.assignment.Assignment`). How tasks end is said by the flow, at once.

    runs_again: all that the agent does is on record, as of one with a model. So its run is not over because of what it did in
    a process that died: it is run again, comes to all of that again, and goes on behind it.
    """

    def __init__(self, desk: FlowRunState, turn: Turn, *, runs_again: bool = False) -> None:
        self._desk, self._turn, self._runs_again = desk, turn, runs_again
        self.closings: dict[str, TaskEnd] = {}
        self.ended: TurnEnd | None = None
        self._behind: set[str] = set()
        """Tasks whose end is on record, and the run has not come to again."""
        self._end_is_behind = False
        self._tries: dict[tuple[Way, str], int] = {}
        self._unsure: set[str] = set()
        """Tasks whose end was about to be said when whoever said it was stopped."""
        self._saying = asyncio.Lock()
        self._is_closed = False

    @property
    def by(self) -> str:
        return self._desk.flow

    @property
    def giver(self) -> str | None:
        if not self._desk.relays:
            return self.by
        outer = self._desk.context.assignment
        return outer.giver if outer is not None else None

    @property
    def request(self) -> Content:
        return self._desk.context.message

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        return self._turn.tasks

    @property
    def scope(self) -> Scope:
        return self._turn.scope

    @property
    def is_over(self) -> bool:
        if self.ended is not None and not self._end_is_behind:
            return True
        return len(self.closings) == len(self.tasks) and self._behind.isdisjoint(self.closings)

    @cached_property
    def instructions(self) -> str:
        return part_instructions(self._others) if self._desk.relays else instructions(self.by, self.tasks, self._others)

    @cached_property
    def tools(self) -> Sequence[Tool]:
        if self._desk.relays:
            return ()
        return task_tools(self, [self._desk.graph.tasks[task.name] for task in self.tasks], self._others)

    async def restore(self) -> None:
        """Takes up what is on record of this turn."""
        for task in self.tasks:
            closing, way = await self._recorded(task.name)
            if closing is not None:
                self.closings[task.name] = closing
                if self._runs_again and way == "close":
                    self._behind.add(task.name)
        await self._take_up_end()
        self._end_is_behind = self.ended is not None and self._runs_again

    async def close(self) -> None:
        """The turn is over: returns when all is said that was begun; what comes later raises ToolFailed."""
        self._is_closed = True
        async with self._saying:
            for name in tuple(self._unsure):
                await self._make_sure(name)
            await self._take_up_end()

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        name = self._named(task)
        await self._close("close", self._success(name, self._desk.graph.tasks[name].result.checked(result)))

    async def answer(self, text: str, data: JsonValue) -> None:
        """The agent came to its end with these words: they are the result of the first task that is open."""
        name = next((task.name for task in self.tasks if task.name not in self.closings), self.tasks[0].name)
        try:
            await self._close("settle", self._success(name, self._desk.graph.tasks[name].result.of_answer(text, data)))
        except ToolFailed as misfit:
            await self.fail_all(str(misfit))

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        await self._close("close", _failure(self._named(task), reason))

    async def fail_all(self, reason: str) -> None:
        """No task that is open will be done in this turn, or at all."""
        for task in self.tasks:
            try:
                await self._close("settle", _failure(task.name, reason))
            except ToolFailed as blocked:
                if task.name not in self.closings:  # a guardrail lets the reason not be said
                    await self._close("settle", _failure(task.name, str(blocked)))

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        content = text_content(message) if isinstance(message, str) else message
        ended = TurnEnd(next, HandoffNote(self._turn.agent, content) if content is not None and content.parts else None)

        async def make(_: Show) -> Event:
            event = self._desk.context.event(turn_end_content(self.by, self._turn.agent, ended), checkpoint=True)
            return event.model_copy(update={"scope": (self._desk.labels.own,)})

        async with self._saying:
            self._refuse_late()
            if self._end_key not in self._desk.context.recorded:
                self._refuse_idle(next)
            self.ended = self._ended_by(await self._desk.context.once(self._end_key, make))
            self._end_is_behind = False

    @property
    def _others(self) -> Sequence[str]:
        return [name for name in self._desk.colleagues if name != self._turn.agent]

    @property
    def _end_key(self) -> str:
        return f"end#{self._turn.number}"

    def _named(self, task: str | None) -> str:
        """The name of the task that is meant."""
        names = [each.name for each in self.tasks]
        if task is None and len(names) > 1:
            raise ToolFailed("You have several tasks.", fix=f"Say which: {', '.join(names)}.")
        name = names[0] if task is None else task
        if name not in names:
            raise ToolFailed(f"{name[:64]!r} is no task of yours.", fix=f"Yours: {', '.join(names)}.")
        return name

    def _refuse_idle(self, named: str | None) -> None:
        candidates = self._desk.waiting(tuple(self.closings.values()))
        if named is not None and named not in candidates:
            listed = ", ".join(candidates) or "nobody"
            raise ToolFailed(f"{named[:64]!r} has nothing to do in {self.by!r} now.", fix=f"Those who have: {listed}.")

    def _success(self, name: str, result: JsonValue) -> TaskEnd:
        """ToolFailed when the result is too large."""
        most = self._desk.context.config.limits.message_bytes
        size = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > most:
            raise ToolFailed(f"The result has {size:,} bytes, {most:,} are allowed.", fix="Save it as an artifact.")
        return TaskEnd(task=name, status=Status.SUCCESSFUL, result=result)

    def _refuse_late(self) -> None:
        if self._is_closed:
            raise ToolFailed(f"The turn of {self._turn.agent!r} is over.")

    async def _close(self, way: Way, closing: TaskEnd) -> None:
        """Says how the task ended. ToolFailed when it ended before, or a guardrail does not let it be said."""
        name = closing.task
        async with self._saying:
            self._refuse_late()
            await self._make_sure(name)
            if name in self.closings and (way == "settle" or name not in self._behind):
                raise ToolFailed(f"The task {name!r} is {self.closings[name].status} already.")
            self._unsure.add(name)
            await self._say(way, self._signed(closing))
            self._unsure.discard(name)
            self._behind.discard(name)

    async def _make_sure(self, name: str) -> None:
        """An end that is in the log counts, though whoever said it had no time left to see that."""
        if name in self._unsure and name not in self.closings:
            closing, _ = await self._recorded(name)
            if closing is not None:
                self.closings[name] = closing
        self._unsure.discard(name)

    async def _take_up_end(self) -> None:
        if self.ended is None and self._end_key in self._desk.context.recorded:
            self.ended = self._ended_by(await self._desk.context.once(self._end_key, _never))

    async def _say(self, way: Way, closing: TaskEnd) -> None:
        """Says it, or comes to it again."""
        number = self._tries.get((way, closing.task), 0) + 1
        key = self._close_key(way, number, closing)
        if closing.task in self._behind and key not in self._desk.context.recorded:
            return  # this time it is ended in another way: the first one counts

        async def make(_: Show) -> Event:
            event = self._desk.context.event(task_end_content(self.by, closing), checkpoint=True)
            return event.model_copy(update={"scope": (self._desk.labels.of(closing.task),)})

        said = await self._desk.context.once(key, make)
        self._tries[way, closing.task] = number
        left = self._left(said, closing)
        if left is None:
            by = repr(said.actions.guarded[-1].guardrail) if said.actions.guarded else "a guardrail"
            raise ToolFailed(f"The result was blocked by {by}.", fix="Leave out what it must not hold.")
        self.closings[closing.task] = left

    def _left(self, said: Event, closing: TaskEnd) -> TaskEnd | None:
        """The closing as guardrails left it; None when what they left is none any more."""
        left = redacted_task_end(said, closing)
        if left is not None and left.status is Status.SUCCESSFUL and said.actions.guarded:
            try:
                return left.model_copy(update={"result": self._desk.graph.tasks[left.task].result.checked(left.result)})
            except ToolFailed:
                return None
        return left

    def _ended_by(self, said: Event) -> TurnEnd:
        """How the turn ended; a guardrail may have blocked whom the agent named, and its word."""
        ended = turn_end_of(said) or TurnEnd()
        return ended._replace(word=ended.word and ended.word._replace(by=self._turn.agent))

    def _signed(self, closing: TaskEnd) -> TaskEnd:
        return closing.model_copy(update={"by": self._turn.agent, "turn": self._turn.number})

    def _close_key(self, way: Way, number: int, closing: TaskEnd) -> str:
        return f"{way}#{self._turn.number}.{number}.{closing.status}:{closing.task}"

    async def _recorded(self, name: str) -> tuple[TaskEnd | None, Way]:
        """How the task ended in this turn, as far as that is on record, and who ended it."""
        ends = [self._signed(TaskEnd(task=name, status=status)) for status in (Status.SUCCESSFUL, Status.FAILED)]
        for way in WAYS:
            for number in count(1):
                keys = {self._close_key(way, number, known): known for known in ends}
                said = [key for key in keys if key in self._desk.context.recorded]
                for key in said:
                    left = self._left(await self._desk.context.once(key, _never), keys[key])
                    if left is not None:
                        return left, way
                if not said:
                    break
        return None, "close"


def _failure(name: str, reason: str) -> TaskEnd:
    return TaskEnd(task=name, status=Status.FAILED, reason=reason[:REASON_CHARACTERS])


async def _never(_: Show) -> Event:
    raise AssertionError("It is on record.")
