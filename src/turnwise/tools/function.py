"""Python functions as tools: sync or async, described by their signatures and docstrings."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.errors import ConfigError
from turnwise.ports.tool import ToolCall, ToolRules, ToolSpec
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name
from turnwise.tools.results import json_value
from turnwise.tools.schema import described, parameters_of, underlying
from turnwise.tools.threads import in_thread

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that a model may call; a program still calls it as before.

    Its parameters are what the model fills, as annotated and as the docstring describes them. One named `context`, or
    annotated AgentContext, gets the turn's context, and one annotated ToolCall the call itself: the model sees neither. A
    function that is not async runs in a thread.

    name: the function's by default. description: its docstring's by default. rules: how calls are made; None = as ToolRules
    says. Raises ConfigError for a function whose parameters a model could not fill, and for a name that a provider would
    refuse.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        rules: ToolRules | None = None,
    ) -> None:
        behind = underlying(function)
        name = behind.__name__ if name is None else name
        if not is_tool_name(name):
            raise ConfigError(
                f"{name!r} cannot be a tool's name.",
                fix=f"Give it one of 1 to {NAME_CHARACTERS} of a-z, A-Z, 0-9, '_' and '-', beginning with a letter or '_'.",
            )
        if inspect.isgeneratorfunction(behind) or inspect.isasyncgenfunction(behind):
            raise ConfigError(f"Tool {name!r}: its function yields.", fix="Return the result as a whole.")
        written = described(behind)
        self._function = function
        self._is_async = inspect.iscoroutinefunction(behind)
        self._parameters = parameters_of(function, name, written.parameters)
        self.rules = rules or ToolRules()
        self.spec = ToolSpec(
            name=name,
            description=written.text if description is None else description,
            parameters=self._parameters.schema(),
        )

    def __repr__(self) -> str:
        return f"FunctionTool({self.spec.name!r})"

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self._function(*arguments, **named)

    def check_call(self, call: ToolCall) -> None:
        self._parameters.values(call)

    async def run(self, call: ToolCall) -> JsonValue:
        values = self._parameters.values(call)
        function: Callable[..., Any] = self._function
        result = function(**values) if self._is_async else await in_thread(function, **values)
        return json_value(await result if inspect.isawaitable(result) else result, self.spec.name)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    confirm: bool | Callable[[ToolCall], bool | Awaitable[bool]] = False,
    later: bool = False,
    seconds: float | None = None,
    recorded: bool = True,
    last: bool = False,
    private: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    confirm: bool | Callable[[ToolCall], bool | Awaitable[bool]] = False,
    later: bool = False,
    seconds: float | None = None,
    recorded: bool = True,
    last: bool = False,
    private: bool = False,
) -> Any:
    """Makes a function a tool, with or without arguments: `@tool` or `@tool(confirm=True)`.

    name, description: see FunctionTool. The others are the fields of ToolRules. Raises ConfigError.
    """
    if seconds is not None and seconds <= 0:
        raise ConfigError(f"A tool's time limit is {seconds} seconds.", fix="Give it more than 0, or None.")
    rules = ToolRules(confirm=confirm, later=later, seconds=seconds, recorded=recorded, last=last, private=private)

    def wrap(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, name=name, description=description, rules=rules)

    return wrap if function is None else wrap(function)
