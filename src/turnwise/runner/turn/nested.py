"""What those whom an agent runs have of its assignment, and of what is known of the message."""

from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.ports.assignment import AssignedTask, Assignment, Scope
from turnwise.ports.selector import SelectionRequest


class NestedAssignment:
    """An assignment that is somebody else's (implements `ports.assignment.Assignment`): its tasks can be read, and are not
    ended here, as the last word of the whole is their result.
    """

    is_over = False
    instructions = ""
    tools: Sequence[Any] = ()

    def __init__(self, whole: Assignment) -> None:
        self._whole = whole

    @property
    def by(self) -> str:
        return self._whole.by

    @property
    def giver(self) -> str | None:
        return self._whole.giver

    @property
    def request(self) -> Content:
        return self._whole.request

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        return self._whole.tasks

    @property
    def scope(self) -> Scope:
        return self._whole.scope

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        self._refuse()

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        self._refuse()

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ToolFailed("The task was given to the agent that this one is a part of.", fix="Answer; that agent ends it.")


def nested_assignment(assignment: Assignment | None) -> Assignment | None:
    """What a part has of the assignment of the whole."""
    return assignment if assignment is None or isinstance(assignment, NestedAssignment) else NestedAssignment(assignment)


def nested_context(context: MessageContext, branch: str, assignment: Assignment | None) -> MessageContext:
    """What a run on that branch knows beside the message, of what its asker knows. The caller's tools are for whoever answers
    the caller: not for who is asked in private, nor for who does a task that a flow thought of.
    """
    if not context.tools or not ("/>" in branch or (assignment is not None and assignment.tools)):
        return context
    return context.model_copy(update={"tools": ()})


_DECIDED = {"selector", "outcome", "agent", "method", "confidence", "reason"}


def verdict_value(verdict: Verdict) -> JsonValue:
    """The verdict as the value of a step: what an agent that runs again needs of it."""
    return verdict.model_dump(mode="json", include=_DECIDED)


def decision_from_verdict(verdict: Verdict, request: SelectionRequest, lead: str) -> Selection:
    """The decision that the verdict is; for `lead` when it chose nobody."""
    return Selection(
        agent=verdict.agent or lead,
        method=verdict.method or verdict.selector,
        confidence=verdict.confidence,
        reason=verdict.reason,
        occasion=request.occasion,
        verdicts=(verdict,),
        policy=verdict.selector,
        tree_version=request.tree.version,
    )
