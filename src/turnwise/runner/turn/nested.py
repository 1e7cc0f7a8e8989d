"""The context that nested agent runs inherit: the assignment and the message context."""

from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import Branch
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.ports.assignment import AssignedTask, Assignment, Scope
from turnwise.ports.selector import SelectionRequest


class NestedAssignment:
    """A read-only view of the parent agent's assignment. Implements `ports.assignment.Assignment`.

    A nested agent can read the tasks but not end them: the parent's last answer is their result.
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
        raise ToolFailed("The task belongs to the agent that runs this one.", fix="Answer; that agent ends the task.")


def nested_assignment(assignment: Assignment | None) -> Assignment | None:
    """Returns the read-only view of an assignment that a nested run gets."""
    return assignment if assignment is None or isinstance(assignment, NestedAssignment) else NestedAssignment(assignment)


def nested_context(context: MessageContext, branch: Branch, assignment: Assignment | None) -> MessageContext:
    """Returns the message context that a run on that branch inherits.

    The caller's tools are dropped for private calls and for flow tasks: only agents that answer the caller may use them.
    """
    if not context.tools or not (branch.is_private or (assignment is not None and assignment.tools)):
        return context
    return context.replace(tools=())


_DECIDED = {"selector", "outcome", "agent", "method", "confidence", "reason"}


def verdict_value(verdict: Verdict) -> JsonValue:
    """Returns the fields of the verdict that a resumed run needs, as the value of a step."""
    return verdict.model_dump(mode="json", include=_DECIDED)


def decision_from_verdict(verdict: Verdict, request: SelectionRequest, lead: str) -> Selection:
    """Returns the verdict as a Selection. Selects `lead` when the verdict chose no agent."""
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
