"""Python functions as tools, sync or async, described by their signatures and docstrings."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnwise.facts.content import Content, is_deep, least_bytes
from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.tool import ToolCall, ToolRules, ToolSpec
from turnwise.tools.event_loop import in_thread
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name
from turnwise.tools.schema import parameters_of, parse_docstring, underlying

_FIX = "Return text, numbers, lists, dicts, dates, enums, dataclasses or pydantic models; save bytes as an artifact."
P = ParamSpec("P")
R = TypeVar("R")

RESULT_BYTES = 2 * 1024 * 1024
"""The largest result of a tool, apart from text, which may be longer and is cut for the model."""
_LONG_BYTES = 64 * 1024
"""A result of this size or more is converted in a thread."""


def is_long(value: object) -> bool:
    """Returns whether a value is so long that its conversion would hold the event loop. Text is not: it stays as it is."""
    return not isinstance(value, str) and least_bytes(value, _LONG_BYTES) > _LONG_BYTES


def check_result_size(value: object, tool: str) -> None:
    """Raises ToolFailed if a result that is no text is larger than RESULT_BYTES. May take long: see `is_long`."""
    if not isinstance(value, str) and least_bytes(value, RESULT_BYTES) > RESULT_BYTES:
        problem = f"{tool} gave a {type(value).__name__} of more than {RESULT_BYTES:,} bytes."
        raise ToolFailed(problem, fix="Return less of it, or save it as an artifact.")


def json_value(value: Any, tool: str) -> JsonValue:
    """Returns the value as JSON.

    Models and dataclasses become objects, dates and enums their JSON form, and a Content its text.

    Raises:
        ToolFailed: The value has no JSON form, such as bytes, non-finite numbers or objects of other classes. Or it is
            larger than RESULT_BYTES.
    """
    if isinstance(value, Content):
        return value.text
    if type(value) is str:
        return value
    if not is_deep(value):  # such as a value that contains itself, which has no JSON form
        check_result_size(value, tool)
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{tool} gave a {type(value).__name__} that JSON has no form for: {error}.", fix=_FIX) from None
    if _contains_bytes(value):
        raise ToolFailed(f"{tool} gave bytes, which JSON has no form for.", fix=_FIX)
    result: JsonValue = plain
    return result


def consumed(work: Callable[..., R], box: list[Any], *arguments: Any) -> R:
    """Calls `work` with the value in the box, and frees the value even if `work` raises ToolFailed.

    A value of millions of objects takes long to free. The thread that calls this does it, not the one that reads the error.
    """
    try:
        return work(box.pop(), *arguments)
    except ToolFailed as error:
        problem = error.with_traceback(None)
    problem.__context__ = None  # its frames hold the value, too
    raise problem


def _contains_bytes(value: Any) -> bool:
    """Checks for bytes in plain containers. A pydantic model defines the form of its own bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return True
    if isinstance(value, Mapping):
        return any(map(_contains_bytes, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_contains_bytes, value))


class FunctionTool(Generic[P, R]):
    """A function that a model may call. Code can still call it directly.

    The model fills the parameters as annotated; the docstring describes them. A parameter that is named `context` or
    annotated as AgentContext gets the turn's context. One annotated as ToolCall gets the call. The model sees neither.
    A sync function runs in a thread.

    Args:
        function: The function.
        name: By default the function's name.
        description: By default the function's docstring.
        rules: The rules for calls; None means the defaults of ToolRules.

    Raises:
        ConfigError: A model could not fill the parameters, or a provider would refuse the name.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        rules: ToolRules | None = None,
    ) -> None:
        target = underlying(function)
        name = target.__name__ if name is None else name
        if not is_tool_name(name):
            raise ConfigError(
                f"{name!r} cannot be a tool's name.",
                fix=f"Give it one of 1 to {NAME_CHARACTERS} of a-z, A-Z, 0-9, '_' and '-', beginning with a letter or '_'.",
            )
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise ConfigError(f"Tool {name!r}: its function yields.", fix="Return the result as a whole.")
        docs = parse_docstring(target)
        self._function = function
        self._is_async = inspect.iscoroutinefunction(target)
        self._parameters = parameters_of(function, name, docs.parameters)
        self.rules = rules or ToolRules()
        self.spec = ToolSpec(
            name=name,
            description=docs.text if description is None else description,
            parameters=self._parameters.schema(),
        )

    def __repr__(self) -> str:
        return f"FunctionTool({self.spec.name!r})"

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self._function(*arguments, **named)

    def check_call(self, call: ToolCall) -> None:
        self._parameters.values(call)

    async def run(self, call: ToolCall) -> JsonValue:
        """Calls the function with the checked arguments and returns its result as JSON."""
        values = self._parameters.values(call)
        if not self._is_async:
            result = await in_thread(self._call, values)
            return await self._converted([await result]) if inspect.isawaitable(result) else result
        function: Callable[..., Any] = self._function
        given = function(**values)
        return await self._converted([await given] if inspect.isawaitable(given) else [given])

    def _call(self, values: dict[str, Any]) -> Any:
        """Returns the function's result as JSON, or the awaitable that it returned."""
        function: Callable[..., Any] = self._function
        box = [function(**values)]
        return box[0] if inspect.isawaitable(box[0]) else consumed(json_value, box, self.spec.name)

    async def _converted(self, box: list[Any]) -> JsonValue:
        """Returns the value in the box as JSON."""
        if not is_long(box[0]):
            return json_value(box.pop(), self.spec.name)
        return await asyncio.to_thread(consumed, json_value, box, self.spec.name)


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
    """Turns a function into a tool: `@tool` or `@tool(confirm=True)`.

    Args:
        name: See FunctionTool.
        description: See FunctionTool.
        confirm: This and the following arguments are fields of ToolRules.

    Raises:
        ConfigError: See FunctionTool; also for a time limit of 0 or less.
    """
    if seconds is not None and seconds <= 0:
        raise ConfigError(f"A tool's time limit is {seconds} seconds.", fix="Give it more than 0, or None.")
    rules = ToolRules(confirm=confirm, later=later, seconds=seconds, recorded=recorded, last=last, private=private)

    def wrap(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, name=name, description=description, rules=rules)

    return wrap if function is None else wrap(function)
