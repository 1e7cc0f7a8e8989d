"""What a function takes: as a schema for the model, and as values for the function."""

import functools
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import ErrorDetails

from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import ToolCall

PROBLEMS_SHOWN = 5
INPUT_CHARACTERS = 60

Given = Literal["context", "call"]
"""What a parameter gets from the turn instead of from the model."""

_GIVEN_BY_TYPE: Mapping[Any, Given] = {AgentContext: "context", "AgentContext": "context", ToolCall: "call", "ToolCall": "call"}


class Parameters(NamedTuple):
    """model: checks the arguments; its field of a parameter is `names`' key. given: parameters that the turn fills."""

    model: type[BaseModel]
    names: Mapping[str, str]
    given: Mapping[str, Given]

    def schema(self) -> dict[str, JsonValue]:
        """The JSON schema of the arguments, an object."""
        schema = self.model.model_json_schema(schema_generator=_Schema)
        del schema["title"]
        return schema

    def values(self, call: ToolCall) -> dict[str, Any]:
        """All values for the function by parameter. Types are as strict as JSON's: no number is read from a string.

        ToolFailed says which arguments are wrong, how, and what is right.
        """
        try:
            checked = self.model.model_validate_json(json.dumps(dict(call.arguments)), strict=True)
        except ValidationError as error:
            raise ToolFailed(_told(error), fix=self._signature()) from None
        values = {name: getattr(checked, field) for field, name in self.names.items()}
        for name, what in self.given.items():
            values[name] = call.context if what == "context" else call
        return values

    def _signature(self) -> str:
        fields = self.model.model_fields.values()
        listed = [f"{field.alias}{' (required)' if field.is_required() else ''}" for field in fields]
        return f"Parameters: {', '.join(listed)}." if listed else "It takes no arguments."


class _Schema(GenerateJsonSchema):
    """Without a title for every field, which only repeats its name, and silent on defaults that JSON has no form for."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def parameters_of(function: Callable[..., Any], tool: str, descriptions: Mapping[str, str]) -> Parameters:
    """What the function takes; ConfigError, naming tool and parameter, when a model could not fill it."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    given: dict[str, Given] = {}
    for parameter in _signature(function, tool):
        what = _given(parameter)
        if what is not None:
            given[parameter.name] = what
            continue
        # Names of our own, so that a parameter may have the name of any attribute of a model.
        field = f"f{len(fields)}"
        annotation = _annotation(function, parameter, tool)
        fields[field] = (_aliased(annotation, parameter.name, descriptions.get(parameter.name)), _default(parameter))
        names[field] = parameter.name
    try:
        model = create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
        found = Parameters(model, names, given)
        found.schema()
    except (PydanticSchemaGenerationError, PydanticUserError, PydanticJsonSchemaWarning) as error:
        problem = str(error).partition("\n")[0]
        raise ConfigError(f"Tool {tool!r}: {problem}.", fix="Annotate its parameters with types that JSON can carry.") from None
    return found


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a partial, a method, a decorator or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    called: Any = function if inspect.isroutine(function) else type(function).__call__
    behind: Callable[..., Any] = inspect.unwrap(called)
    return behind


def _signature(function: Callable[..., Any], tool: str) -> list[inspect.Parameter]:
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


def _given(parameter: inspect.Parameter) -> Given | None:
    if parameter.name == "context":
        return "context"
    written = parameter.annotation
    if isinstance(written, str):
        written = written.rpartition(".")[2]
    return _GIVEN_BY_TYPE.get(written) if isinstance(written, str | type) else None


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter, tool: str) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, getattr(underlying(function), "__globals__", {}), include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"Tool {tool!r}: the type of {parameter.name!r} cannot be read: {error}.",
            fix="Import it where the function is defined, outside TYPE_CHECKING and outside other functions.",
        ) from None


def _aliased(annotation: Any, name: str, description: str | None) -> Any:
    """The annotation with the parameter's name and description; what it says itself comes later, and counts more."""
    own = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return Annotated[(own[0], Field(alias=name, description=description), *own[1:])]


def _default(parameter: inspect.Parameter) -> Any:
    return ... if parameter.default is parameter.empty else parameter.default


def _told(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    lines = [_problem(problem) for problem in problems[:PROBLEMS_SHOWN]]
    more = f" ({len(problems) - PROBLEMS_SHOWN} more)" if len(problems) > PROBLEMS_SHOWN else ""
    return f"The arguments do not fit: {'; '.join(lines)}{more}."


def _problem(problem: ErrorDetails) -> str:
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


class Described(NamedTuple):
    """text: what the function does, and what it returns. parameters: their descriptions, by name."""

    text: str
    parameters: dict[str, str]


def described(function: Callable[..., Any]) -> Described:
    """Reads a docstring in Google's, NumPy's or Sphinx's style; what is in none of them is all text."""
    # Takes 50 ms to import, and only who makes tools needs it.
    from docstring_parser import ParseError, parse

    written = inspect.getdoc(function) or ""
    try:
        docstring = parse(written)
    except (ParseError, IndexError):  # it does not expect a field without a name
        return Described(written, {})
    parameters = {
        name.strip().lstrip("*"): _one_line(parameter.description)
        for parameter in docstring.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    text = (docstring.description or "").strip()
    returned = docstring.returns.description if docstring.returns else None
    return Described(f"{text}\n\nReturns: {_one_line(returned)}".strip() if returned else text, parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
