"""What a tool is: something that an agent's model may call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import JsonValue

from turnwise.facts.fact import Fact
from turnwise.ports.context import AgentContext


class ToolSpec(Fact):
    """A tool as the model sees it. `parameters` is a JSON schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue]


class ToolCall(NamedTuple):
    """One call, as a tool gets it: its id, the arguments (checked against the schema), and the turn that it belongs to."""

    id: str
    arguments: Mapping[str, JsonValue]
    context: AgentContext


class ToolRules(NamedTuple):
    """How a call of the tool is made.

    confirm: whether a person must agree first; a function decides by the call. later: what `run` returns is only a word that
    it has begun; the result comes later, as a message with a tool result for the call. seconds: its own time limit; None =
    limits.tool_seconds. recorded: its result is a step, so it is not run again once it is on record; False for what acts on
    the turn itself, and is on record by that (a transfer, a question, a call of an agent). last: it is called when all other
    calls beside it are done, one such call after the other. private: other agents see neither call nor result.
    """

    confirm: bool | Callable[[ToolCall], bool | Awaitable[bool]] = False
    later: bool = False
    seconds: float | None = None
    recorded: bool = True
    last: bool = False
    private: bool = False


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    @property
    def rules(self) -> ToolRules: ...

    async def run(self, call: ToolCall) -> JsonValue:
        """What the model is told, as a JSON value.

        ToolFailed, with words for the model, when it cannot; what else it raises is told as the error's type and message.
        Suspend passes through: the turn waits.
        """
        ...


@runtime_checkable
class ChecksCalls(Protocol):
    """A tool that can say before it runs whether it will take a call. Nobody is asked for leave for one that it will not; of
    other tools only the names of the arguments are checked by then.
    """

    def check_call(self, call: ToolCall) -> None:
        """ToolFailed, with words for the model, when `run` would refuse the arguments."""
        ...


class Toolset(Protocol):
    """Tools that are known only when they are asked for, such as those of a server."""

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        """The tools for this turn, in a stable order. ToolFailed when they cannot be had now."""
        ...

    async def close(self) -> None:
        """Gives up what it holds. Idempotent; a later use opens it anew."""
        ...
