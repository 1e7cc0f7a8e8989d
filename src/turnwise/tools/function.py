"""Python functions as tools, sync or async. Signature and docstring give the schema for the model and check its values."""

import asyncio
import functools
import inspect
import json
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from turnwise.facts.content import Content, is_deep, least_bytes
from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import ToolCall, ToolRules, ToolSpec
from turnwise.tools.event_loop import in_thread
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name

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


PROBLEMS_SHOWN = 5
INPUT_CHARACTERS = 60
TurnSource = Literal["context", "call"]
"""The source of a parameter that the turn fills instead of the model."""
_SOURCE_BY_TYPE: Mapping[Any, TurnSource] = {
    AgentContext: "context",
    "AgentContext": "context",
    ToolCall: "call",
    "ToolCall": "call",
}


class Parameters(NamedTuple):
    """The parameters of a tool function."""

    model: type[BaseModel]
    """The pydantic model that checks the arguments."""
    names: Mapping[str, str]
    """The function's parameter for each field of the model."""
    given: Mapping[str, TurnSource]
    """The parameters that the turn fills."""

    def schema(self) -> dict[str, JsonValue]:
        """Returns the JSON schema of the arguments, an object."""
        schema = self.model.model_json_schema(schema_generator=_Schema)
        del schema["title"]
        return schema

    def values(self, call: ToolCall) -> dict[str, Any]:
        """Returns all values for the function, by parameter.

        Types are as strict as JSON's: a string is not read as a number.

        Raises:
            ToolFailed: Arguments are wrong; the message names them, the problem and the right parameters.
        """
        try:
            checked = self.model.model_validate_json(json.dumps(dict(call.arguments)), strict=True)
        except ValidationError as error:
            raise ToolFailed(_problems_text(error), fix=self._signature()) from None
        values = {name: getattr(checked, field) for field, name in self.names.items()}
        for name, source in self.given.items():
            values[name] = call.context if source == "context" else call
        return values

    def _signature(self) -> str:
        fields = self.model.model_fields.values()
        names = [f"{field.alias}{' (required)' if field.is_required() else ''}" for field in fields]
        return f"Parameters: {', '.join(names)}." if names else "It takes no arguments."


class _Schema(GenerateJsonSchema):
    """Omits field titles, which repeat the names, and the warnings about defaults without a JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def parameters_of(function: Callable[..., Any], tool: str, descriptions: Mapping[str, str]) -> Parameters:
    """Reads the function's parameters.

    Raises:
        ConfigError: A model could not fill a parameter; the message names the tool and the parameter.
    """
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    from_turn: dict[str, TurnSource] = {}
    for parameter in _signature(function, tool):
        source = _turn_source(parameter)
        if source is not None:
            from_turn[parameter.name] = source
            continue
        # Generated field names, so a parameter may be named like any attribute of a model.
        field = f"f{len(fields)}"
        annotation = _annotation(function, parameter, tool)
        fields[field] = (_aliased(annotation, parameter.name, descriptions.get(parameter.name)), _default(parameter))
        names[field] = parameter.name
    try:
        model = create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
        parameters = Parameters(model, names, from_turn)
        parameters.schema()
    except (PydanticSchemaGenerationError, PydanticUserError, PydanticJsonSchemaWarning) as error:
        problem = str(error).partition("\n")[0]
        raise ConfigError(f"Tool {tool!r}: {problem}.", fix="Annotate its parameters with types that JSON can carry.") from None
    return parameters


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function inside a partial, a method, a decorator or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    called: Any = function if inspect.isroutine(function) else type(function).__call__
    target: Callable[..., Any] = inspect.unwrap(called)
    return target


def _signature(function: Callable[..., Any], tool: str) -> list[inspect.Parameter]:
    """Returns the function's parameters. Raises ConfigError for one that a model cannot fill."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Tool {tool!r}: {function!r} is not a function that can be called: {error}.") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(
                f"Tool {tool!r}: a model cannot fill its parameter {str(parameter).partition(':')[0]!r}.",
                fix="Give every parameter a name of its own that may be used in a call.",
            )
    if parameters and parameters[0].name == "self":
        raise ConfigError(f"Tool {tool!r}: its function wants 'self'.", fix="Make the tool from a method of an object.")
    return parameters


def _turn_source(parameter: inspect.Parameter) -> TurnSource | None:
    """Returns what of the turn fills the parameter: context or call; None for an argument of the model."""
    if parameter.name == "context":
        return "context"
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = annotation.rpartition(".")[2]
    return _SOURCE_BY_TYPE.get(annotation) if isinstance(annotation, str | type) else None


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter, tool: str) -> Any:
    """Returns the parameter's type. Raises ConfigError if it cannot be resolved."""
    if parameter.annotation is parameter.empty:
        return Any
    namespace = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(namespace, getattr(underlying(function), "__globals__", {}), include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"Tool {tool!r}: the type of {parameter.name!r} cannot be read: {error}.",
            fix="Import it where the function is defined, outside TYPE_CHECKING and outside other functions.",
        ) from None


def _aliased(annotation: Any, name: str, description: str | None) -> Any:
    """Adds the parameter's name and description to the annotation. Settings of the annotation itself take precedence."""
    own = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return Annotated[(own[0], Field(alias=name, description=description), *own[1:])]


def _default(parameter: inspect.Parameter) -> Any:
    return ... if parameter.default is parameter.empty else parameter.default


def _problems_text(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    lines = [_problem(problem) for problem in problems[:PROBLEMS_SHOWN]]
    more = f" ({len(problems) - PROBLEMS_SHOWN} more)" if len(problems) > PROBLEMS_SHOWN else ""
    return f"The arguments do not fit: {'; '.join(lines)}{more}."


def _problem(problem: ErrorDetails) -> str:
    """Returns one of pydantic's problems in words for a model."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    if problem["type"] == "missing":
        return f"{place!r} is missing"
    if problem["type"] == "extra_forbidden":
        return f"{place!r} is not a parameter"
    words = problem["msg"].removeprefix("Value error, ")
    written = json.dumps(problem["input"], ensure_ascii=False, default=str)
    shown = written if len(written) <= INPUT_CHARACTERS else written[: INPUT_CHARACTERS - 1] + "…"
    where = f"{place!r}: " if place else ""
    return f"{where}{words[:1].lower()}{words[1:]}, not {shown}"


class DocstringParts(NamedTuple):
    """The parts of a docstring."""

    text: str
    """The description of the function and of its result."""
    parameters: dict[str, str]
    """The descriptions of the parameters, by name."""


def parse_docstring(function: Callable[..., Any]) -> DocstringParts:
    """Parses a docstring in Google, NumPy or Sphinx style. A docstring in none of them is returned as text."""
    # Imported here because it takes 50 ms and only tool definitions need it.
    from docstring_parser import ParseError, parse

    docstring_text = inspect.getdoc(function) or ""
    try:
        docstring = parse(docstring_text)
    except (ParseError, IndexError):  # the parser fails on a field without a name
        return DocstringParts(docstring_text, {})
    parameters = {
        name.strip().lstrip("*"): _one_line(parameter.description)
        for parameter in docstring.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    text = (docstring.description or "").strip()
    result = docstring.returns.description if docstring.returns else None
    return DocstringParts(f"{text}\n\nReturns: {_one_line(result)}".strip() if result else text, parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
