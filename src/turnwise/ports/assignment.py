"""The assignment of an agent in a flow: the tasks that it works on in one turn."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.content import Content


class Scope(NamedTuple):
    """The place of a run within a flow."""

    labels: tuple[str, ...] = ()
    """The labels of the run's events."""
    sees: frozenset[str] | None = None
    """The labels of other agents' events that the run sees, with everything below them; None means all (behaviour D7)."""


EVERYTHING = Scope()


class AssignedTask(NamedTuple):
    """A ready task that is assigned to the agent."""

    name: str
    objective: str
    result: Mapping[str, JsonValue] | None = None
    """The JSON schema of the result; None means text."""
    given: Mapping[str, JsonValue] = {}
    """The results of the successful tasks on which this one depends, by name."""
    interactive: bool = False
    """True if the agent may ask the user."""


class Assignment(Protocol):
    """An agent's tasks in a flow, for one turn (behaviours D3, D6).

    When a call returns, its effect is recorded. If the turn runs again, the call finds the record and does nothing.
    """

    @property
    def by(self) -> str:
        """The flow's name."""
        ...

    @property
    def giver(self) -> str | None:
        """The author of the turn's message: usually the flow; None for the user."""
        ...

    @property
    def request(self) -> Content:
        """The request to the flow itself."""
        ...

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        """The tasks that were ready for this agent when the turn began, in the flow's order; at least one."""
        ...

    @property
    def scope(self) -> Scope: ...

    @property
    def instructions(self) -> str:
        """Instructions for a model on how to report the end of a task."""
        ...

    @property
    def tools(self) -> Sequence[Any]:
        """The `ports.tool.Tool`s for a model besides the agent's own: to end the tasks, and those that the tasks provide.

        Without any, the agent's ordinary answer is the result.
        """
        ...  # Any avoids an import cycle: a tool is called with a context, which holds an assignment.

    @property
    def is_over(self) -> bool:
        """True if no work is left in this turn: every task has ended, or the agent ended its turn."""
        ...

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        """Ends a task with a result.

        Args:
            result: The result; must match the task's type.
            task: The task's name; None when there is only one.

        Raises:
            ToolFailed: The result has the wrong type, or there is no such open task. The task stays open.
        """
        ...

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        """Ends a task as failed. Raises ToolFailed when there is no such open task."""
        ...

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        """Ends the turn, so that another agent continues.

        Args:
            next: The agent that continues; None lets the flow's strategy choose.
            message: A message for the agent that continues.

        Raises:
            ToolFailed: `next` has no task in the flow now.
        """
        ...
