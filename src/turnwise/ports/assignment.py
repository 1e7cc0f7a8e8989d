"""What an agent is to do in a turn that a flow gives it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.content import Content


class Scope(NamedTuple):
    """Where in a flow a run stands. labels: what its events are labelled with; sees: the labels of others that it sees, with
    all below them, None = everything (behaviour D7).
    """

    labels: tuple[str, ...] = ()
    sees: frozenset[str] | None = None


EVERYTHING = Scope()


class AssignedTask(NamedTuple):
    """A task that is ready, and the agent's to do. result: the JSON schema of its result; None = a text. given: the results
    of the tasks that it depends on, by their names, of those that succeeded. interactive: whether the user may be asked.
    """

    name: str
    objective: str
    result: Mapping[str, JsonValue] | None = None
    given: Mapping[str, JsonValue] = {}
    interactive: bool = False


class Assignment(Protocol):
    """An agent's part in a flow, for one turn (behaviours D3, D6).

    What is done here is on record when the call returns, and done once: if the turn is run again, it is found there.
    """

    @property
    def by(self) -> str:
        """The flow's name."""
        ...

    @property
    def giver(self) -> str | None:
        """Whose word the message is that the turn begins with: the flow's, as a rule; None = the user's own."""
        ...

    @property
    def request(self) -> Content:
        """What the flow itself was asked."""
        ...

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        """What was ready for this agent when the turn began, in the flow's order; at least one."""
        ...

    @property
    def scope(self) -> Scope: ...

    @property
    def instructions(self) -> str:
        """How the agent says that a task is done, for a model."""
        ...

    @property
    def tools(self) -> Sequence[Any]:
        """`ports.tool.Tool`s for a model, beside the agent's own: to say how its tasks ended, and what the tasks bring. When
        there are none, it answers as it always does, and its answer is the result.
        """
        ...  # Any, as a tool is called with a context, which holds an assignment.

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do in this turn: every task has its end, or the agent ended its turn."""
        ...

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        """The task is done, with this result. task: its name; None when there is only one.

        ToolFailed, and the task stays as it is, when the result is not of the task's type, or there is no such open task.
        """
        ...

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        """The task cannot be done. ToolFailed when there is no such open task."""
        ...

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        """Another agent goes on: `next`, or whom the flow's strategy names; `message` reaches whoever it is.

        ToolFailed when `next` has nothing to do in the flow now.
        """
        ...
