"""The protocol of a tool, which an agent's model may call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import JsonValue

from turnwise.facts.fact import Fact
from turnwise.ports.context import AgentContext


class ToolSpec(Fact):
    """A tool as the model sees it."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue]
    """The JSON schema of an object."""


class ToolCall(NamedTuple):
    """One call of a tool."""

    id: str
    arguments: Mapping[str, JsonValue]
    """The arguments, valid against the schema."""
    context: AgentContext
    """The turn that makes the call."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules for calls of a tool."""

    confirm: bool | Callable[[ToolCall], bool | Awaitable[bool]] = False
    """Requires the approval of a person; a function decides per call."""
    later: bool = False
    """The result comes later, as a message with a tool result; the value of `run` only acknowledges the call."""
    seconds: float | None = None
    """The tool's timeout; None means limits.tool_seconds."""
    recorded: bool = True
    """Records the result as a step, so that the call is not repeated. False for tools that act on the turn itself and are
    recorded by that action: a transfer, a question, a call of an agent.
    """
    last: bool = False
    """Runs the call after all other calls of the same answer; several such calls run one after the other."""
    private: bool = False
    """Hides call and result from other agents."""


class Tool(Protocol):
    """A tool that an agent's model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def rules(self) -> ToolRules: ...

    async def run(self, call: ToolCall) -> JsonValue:
        """Runs the call and returns the result for the model, as a JSON value.

        Raises:
            ToolFailed: The call failed; the model reads the error's text. For any other exception it reads type and
                message.
            Suspend: The turn waits. Must propagate.
        """
        ...


@runtime_checkable
class ChecksCalls(Protocol):
    """A tool that can validate a call before it runs. No approval is requested for an invalid call.

    For other tools, only the names of the arguments are checked before the approval.
    """

    def check_call(self, call: ToolCall) -> None:
        """Raises ToolFailed, with a text for the model, when `run` would refuse the arguments."""
        ...


class Toolset(Protocol):
    """Tools that are only known at run time, such as those of a server."""

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        """Returns the tools for this turn, in a stable order. Raises ToolFailed when they are unavailable."""
        ...

    async def close(self) -> None:
        """Closes connections. Idempotent; a later use reopens them."""
        ...
