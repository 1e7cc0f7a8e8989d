"""The tools by which a model says how its tasks ended, private to it (behaviour D6)."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise.facts.errors import ToolFailed
from turnwise.flows.tasks.task import Task
from turnwise.flows.turns.briefs import END_TURN, FAILED, SUCCEEDED
from turnwise.ports.assignment import Assignment
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
