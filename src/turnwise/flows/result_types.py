"""Result types of tasks: JSON schemas for models, and the check of a value (behaviour D6)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import isroutine
from typing import Any, NewType, NoReturn, get_origin

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from turnwise.facts.errors import FlowDefinitionError, ToolFailed
from turnwise.flows.argument_checks import kind_of
from turnwise.tools.function import json_value

_FENCED = re.compile(r"^```[A-Za-z]*[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
MOST_DEPTH = 50
VALUE_CHARACTERS = 60
MISFITS_SHOWN = 10
_TYPE_WORDS: Mapping[str, str] = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
}
_SUBJECTS = frozenset({"Input", "String", "Value", "Number", "Data"})
_TYPE_ERRORS = frozenset({"type", "parsing", "from_float", "attributes_type"})
_BOUNDS: Mapping[str, str] = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "none_required": "null",
}
_SIZES: Mapping[str, str] = {
    "too_short": "a length of {min_length} or more",
    "too_long": "a length of {max_length} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
}
_TEXT: Mapping[str, JsonValue] = {"type": "string"}
_DEFINITIONS = ("$defs", "definitions")
_KINDS = "Use str, a pydantic model, a dataclass, a TypedDict, a type of plain ones, a JSON schema, or a list of labels."


class ResultType:
    """The type of a task's result: `str`, any type that pydantic knows, a JSON schema, or a sequence of labels.

    Only simple constraints of a JSON schema are checked; see `schema_problems`.

    Attributes:
        schema: The JSON schema of the result; None for text.
        labels: The labels of which one is chosen; empty for other kinds.
        parameters: The JSON schema of an object with the one property `result`, for a tool. For labels it takes the
            index.

    Raises:
        FlowDefinitionError: The type has no schema, the schema is flawed, or labels are missing, not texts or
            duplicates. The message names the task.
    """

    def __init__(self, kind: Any, task: str) -> None:
        self._task = task
        self._adapter: TypeAdapter[Any] | None = None
        self.labels: tuple[str, ...] = ()
        self.schema: Mapping[str, JsonValue] | None = None
        if kind is str:
            argument_schema: Mapping[str, Any] = _TEXT
        elif isinstance(kind, list | tuple):
            self.labels = self._labels(kind)
            self.schema = {"type": "string", "enum": list(self.labels)}
            numbered = ", ".join(f"{number} = {label}" for number, label in enumerate(self.labels))
            argument_schema = {
                "type": "integer",
                "minimum": 0,
                "maximum": len(self.labels) - 1,
                "description": f"One of: {numbered}",
            }
        elif isinstance(kind, Mapping):
            self.schema = argument_schema = self._given_schema(kind)
        else:
            self.schema = argument_schema = self._schema_of_type(kind)
        self.parameters: Mapping[str, JsonValue] = _as_argument(argument_schema)

    def checked(self, value: Any) -> JsonValue:
        """Returns the result as JSON; a label may be given by its index or its text.

        Raises:
            ToolFailed: The value does not fit; the text is meant for a model.
        """
        plain = json_value(value, f"The task {self._task!r}")
        if self.labels:
            return self._label(plain)
        if self._adapter is not None:
            return self._of_type(self._adapter, plain)
        problems = list(schema_problems(_TEXT if self.schema is None else self.schema, plain))
        if problems:
            more = f" ({len(problems) - MISFITS_SHOWN} more)" if len(problems) > MISFITS_SHOWN else ""
            self._refuse("; ".join(problems[:MISFITS_SHOWN]) + more)
        return plain

    def of_answer(self, text: str, data: JsonValue = None) -> JsonValue:
        """Converts an agent's answer to the result.

        Text stays unchanged. Other kinds use the data, else the text as JSON, with or without a code fence, else the
        text itself.

        Raises:
            ToolFailed: The answer does not fit.
        """
        if self.schema is None:
            return text if text or data is None else json.dumps(data, ensure_ascii=False)
        if data is not None:
            return self.checked(data)
        words = text.strip()
        try:
            parsed = json.loads(unfenced(words))
        except (ValueError, RecursionError):
            return self.checked(words)
        try:
            return self.checked(parsed)
        except ToolFailed as error:
            try:
                return self.checked(words)  # a text may look like JSON: "2024"
            except ToolFailed:
                raise error from None

    def _labels(self, given: Sequence[Any]) -> tuple[str, ...]:
        """Returns the labels. Raises FlowDefinitionError for an empty list, or equal ones."""
        if not given or not all(isinstance(label, str) and label.strip() for label in given):
            self._reject("labels have to be texts, one or more", "Give a list of different texts.")
        twice = [label for number, label in enumerate(given) if label in given[:number]]
        if twice:
            self._reject(f"the label {twice[0]!r} is there twice", "Give a list of different texts.")
        return tuple(given)

    def _given_schema(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a copy of the JSON schema. Raises FlowDefinitionError if it cannot be used."""
        try:
            schema: dict[str, Any] = json.loads(json.dumps(dict(given), allow_nan=False))
            problem = schema_flaw(schema)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"it is no JSON: {error}"
        if problem:
            self._reject(f"the JSON schema of its result cannot be used: {problem}", "Correct the schema.")
        return schema

    def _schema_of_type(self, kind: Any) -> dict[str, Any]:
        """Returns the JSON schema of a Python type. Raises FlowDefinitionError if it has none."""
        problem = f"its result is {kind_of(kind)}, which is no type"
        if not isinstance(kind, str) and not isroutine(kind):  # pydantic would resolve or call such a value
            try:
                self._adapter = TypeAdapter(kind)
                return self._adapter.json_schema()
            except (PydanticUndefinedAnnotation, PydanticUserError, TypeError) as error:
                if isinstance(kind, type | NewType) or get_origin(kind) is not None:
                    problem = f"the result type {_type_name(kind)} has no JSON schema: {_no_schema_reason(error)}"
        return self._reject(problem, _KINDS)

    def _label(self, value: JsonValue) -> str:
        """Returns the label that a value names, by text or number. Raises ToolFailed."""
        if isinstance(value, str) and value in self.labels:
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.labels):
            return self.labels[value]
        listed = ", ".join(f"{number} = {label}" for number, label in enumerate(self.labels))
        raise ToolFailed("The result has to be the number of a label.", fix=f"One of: {listed}.")

    def _of_type(self, adapter: TypeAdapter[Any], value: JsonValue) -> JsonValue:
        try:
            checked = adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            self._refuse(validation_problems(error))
        return json_value(adapter.dump_python(checked, mode="json", by_alias=True), f"The task {self._task!r}")

    def _refuse(self, problems: str) -> NoReturn:
        raise ToolFailed(f"The result does not fit: {problems}.", fix="Give one that fits.")

    def _reject(self, problem: str, fix: str) -> NoReturn:
        raise FlowDefinitionError(f"Task {self._task!r}: {problem}.", fix=fix)


def unfenced(text: str) -> str:
    """Returns the content of the text's only code fence; the text itself if it has none or several."""
    fenced: list[str] = _FENCED.findall(text)
    return fenced[0] if len(fenced) == 1 else text


def schema_flaw(schema: object, depth: int = 0) -> str:
    """Returns the reason why that is not a usable schema; empty if there is none."""
    if not isinstance(schema, dict):
        return f"a schema is an object, not {_preview(schema)}"
    if depth > MOST_DEPTH:
        return f"schemas within each other are more than {MOST_DEPTH} deep"
    properties, required, allowed = schema.get("properties", {}), schema.get("required", []), schema.get("enum", [None])
    unknown = [name for name in _names(schema) if not isinstance(name, str) or name not in _TYPES]
    if unknown:
        return f"{_preview(unknown[0])} is no type, these are: {', '.join(_TYPES)}"
    if not isinstance(properties, dict):
        return f"'properties' is an object of schemas, not {_preview(properties)}"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"'required' is a list of names, not {_preview(required)}"
    if not isinstance(allowed, list) or not allowed:
        return f"'enum' is a list of one value or more, not {_preview(allowed)}"
    within = {f"property {name!r}": each for name, each in properties.items()} | {"items": schema.get("items", True)}
    flaws = ((place, schema_flaw(each, depth + 1)) for place, each in within.items() if not isinstance(each, bool))
    return next((f"{place}: {problem}" for place, problem in flaws if problem), "")


def schema_problems(schema: Mapping[str, Any], value: JsonValue, place: str = "it") -> Iterator[str]:
    """Yields the problems of the value, outermost first; each names its place. The schema must have no flaw."""
    names = _names(schema)
    if names and not any(_is_of_type(value, name) for name in names):
        yield f"{place} has to be of type {' or '.join(names)}, not {_preview(value)}"
        return
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(_same(value, each) for each in allowed):
        yield f"{place} has to be {' or '.join(map(_preview, allowed))}, not {_preview(value)}"
    elif isinstance(value, dict):
        yield from _object_problems(schema, value, place)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, each in enumerate(value):
            yield from schema_problems(schema["items"], each, f"{place}[{number}]")


def _object_problems(schema: Mapping[str, Any], value: dict[str, JsonValue], place: str) -> Iterator[str]:
    """Yields the problems of an object's keys and values."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    yield from (f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    for name, each in value.items():
        within = properties.get(name, not closed)
        if within is False:
            yield f"{place}.{name} is not allowed"
        elif isinstance(within, dict):
            yield from schema_problems(within, each, f"{place}.{name}")


def _names(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Returns the names of the types that the schema allows; empty if it names none."""
    names = schema.get("type", [])
    return names if isinstance(names, list) else [names]


def _is_of_type(value: JsonValue, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Compares as JSON does: true is not a number."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _preview(value: object) -> str:
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= VALUE_CHARACTERS else written[: VALUE_CHARACTERS - 1] + "…"


def validation_problems(error: ValidationError, value: str = "it", most: int = MISFITS_SHOWN) -> str:
    """Returns all problems with their places: `it.people has to be 0 or more; it.name is missing`.

    The value itself is not shown, because it may be confidential.

    Args:
        error: The validation error.
        value: The name of the whole value; empty if its parts have names.
        most: The most problems that are listed.
    """
    problems = error.errors(include_url=False, include_input=False)
    shown = [each for each in problems if each["type"] != "too_short" or not _has_nested_problem(each["loc"], problems)]
    more = f" ({len(shown) - most} more)" if len(shown) > most else ""
    return "; ".join(_problem_text(each, _place(value, each["loc"])) for each in shown[:most]) + more


def _problem_text(problem: Any, place: str) -> str:
    """Returns one of pydantic's problems in words for a model."""
    kind, about = problem["type"], problem.get("ctx", {})
    type_words = next((words for start, words in _TYPE_WORDS.items() if kind.removeprefix(f"{start}_") in _TYPE_ERRORS), None)
    if type_words is not None:
        return f"{place} has to be {type_words}"
    if kind in _BOUNDS:
        return f"{place} has to be {_BOUNDS[kind].format(**about)}"
    if kind in _SIZES:
        return f"{place} has to have {_SIZES[kind].format(**about)}"
    if kind == "missing":
        return f"{place} is missing"
    if kind in {"extra_forbidden", "unexpected_keyword_argument"}:
        return f"{place} does not belong there"
    if kind == "json_invalid":
        return f"{place} is no JSON: {about['error']}"
    message: str = problem["msg"].removeprefix("Value error, ").rstrip(".")
    what, should, rest = message.partition(" should ")
    return f"{place} should {rest}" if should and what in _SUBJECTS else f"{place}: {message}"


def _has_nested_problem(place: Sequence[int | str], problems: Sequence[Any]) -> bool:
    """Checks for another problem below that place.

    An invalid element is not counted, so its list looks too short as well.
    """
    return any(len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in problems)


def _place(value: str, where: Sequence[int | str]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return f"{value}{steps}".removeprefix(".") or "it"


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type | NewType) and get_origin(kind) is None else repr(kind)


def _no_schema_reason(error: Exception) -> str:
    """Returns the reason why pydantic has no JSON schema for a type, without its advice to ignore the error."""
    code = getattr(error, "code", None)
    if code == "class-not-fully-defined" or isinstance(error, PydanticUndefinedAnnotation):
        return "a name in it is not defined"
    if code == "typed-dict-version":
        return "before Python 3.12 TypedDict has to come from typing_extensions"
    return "pydantic cannot read such values from JSON"


def _as_argument(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Returns the schema of an object with a `result` of this schema; definitions move to the top level."""
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    result = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    return {
        "type": "object",
        "properties": {"result": result},
        "required": ["result"],
        "additionalProperties": False,
        **definitions,
    }
