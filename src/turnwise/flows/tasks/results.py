"""What kind of result a task has, and whether one is of that kind (behaviour D6)."""

import json
from collections.abc import Mapping, Sequence
from inspect import isroutine
from typing import Any, NewType, NoReturn, get_origin

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from turnwise.facts.errors import FlowDefinitionError, ToolFailed
from turnwise.flows.arguments import kind_of
from turnwise.flows.tasks.fenced import unfenced
from turnwise.flows.tasks.fitting import flaw, misfits
from turnwise.flows.tasks.misfits import MISFITS_SHOWN, misfits_found
from turnwise.tools.results import json_value

_TEXT: Mapping[str, JsonValue] = {"type": "string"}
_DEFINITIONS = ("$defs", "definitions")
_KINDS = "Use str, a pydantic model, a dataclass, a TypedDict, a type of plain ones, a JSON schema, or a list of labels."


class ResultType:
    """The kind of a task's result: `str` for a text, any type that pydantic knows, a JSON schema, or a sequence of labels.

    schema: the JSON schema of the result, None for a text. labels: what a label is chosen from, empty for other kinds.
    parameters: a JSON schema of an object whose only property is `result`, as a model gives it: the index of a label instead
    of the label. Of a JSON schema only what is plain is checked, see `fitting`.

    FlowDefinitionError, naming the task, for a type without a schema, a flawed schema, and labels that are none, not texts,
    or twice the same.
    """

    def __init__(self, kind: Any, task: str) -> None:
        self._task = task
        self._adapter: TypeAdapter[Any] | None = None
        self.labels: tuple[str, ...] = ()
        self.schema: Mapping[str, JsonValue] | None = None
        if kind is str:
            asked: Mapping[str, Any] = _TEXT
        elif isinstance(kind, list | tuple):
            self.labels = self._labels(kind)
            self.schema = {"type": "string", "enum": list(self.labels)}
            numbered = ", ".join(f"{number} = {label}" for number, label in enumerate(self.labels))
            asked = {"type": "integer", "minimum": 0, "maximum": len(self.labels) - 1, "description": f"One of: {numbered}"}
        elif isinstance(kind, Mapping):
            self.schema = asked = self._given_schema(kind)
        else:
            self.schema = asked = self._schema_of_type(kind)
        self.parameters: Mapping[str, JsonValue] = _as_argument(asked)

    def checked(self, value: Any) -> JsonValue:
        """The result as JSON, from what was given: a label by its index or as it is.

        ToolFailed, with words for a model, when it is not of the kind.
        """
        plain = json_value(value, f"The task {self._task!r}")
        if self.labels:
            return self._label(plain)
        if self._adapter is not None:
            return self._of_type(self._adapter, plain)
        problems = list(misfits(_TEXT if self.schema is None else self.schema, plain))
        if problems:
            more = f" ({len(problems) - MISFITS_SHOWN} more)" if len(problems) > MISFITS_SHOWN else ""
            self._refuse("; ".join(problems[:MISFITS_SHOWN]) + more)
        return plain

    def of_answer(self, text: str, data: JsonValue = None) -> JsonValue:
        """An agent's last word as the result: a text as it is; for other kinds the data, or else what the text says as JSON,
        which may stand in a fence, or the text itself.

        ToolFailed when that is not of the kind.
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
        except ToolFailed as misfit:
            try:
                return self.checked(words)  # a text may look like JSON: "2024"
            except ToolFailed:
                raise misfit from None

    def _labels(self, given: Sequence[Any]) -> tuple[str, ...]:
        if not given or not all(isinstance(label, str) and label.strip() for label in given):
            self._reject("labels have to be texts, one or more", "Give a list of different texts.")
        twice = [label for number, label in enumerate(given) if label in given[:number]]
        if twice:
            self._reject(f"the label {twice[0]!r} is there twice", "Give a list of different texts.")
        return tuple(given)

    def _given_schema(self, given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            schema: dict[str, Any] = json.loads(json.dumps(dict(given), allow_nan=False))
            problem = flaw(schema)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"it is no JSON: {error}"
        if problem:
            self._reject(f"the JSON schema of its result cannot be used: {problem}", "Correct the schema.")
        return schema

    def _schema_of_type(self, kind: Any) -> dict[str, Any]:
        problem = f"its result is {kind_of(kind)}, which is no type"
        if not isinstance(kind, str) and not isroutine(kind):  # pydantic would look such a type up, or call it
            try:
                self._adapter = TypeAdapter(kind)
                return self._adapter.json_schema()
            except (PydanticUndefinedAnnotation, PydanticUserError, TypeError) as error:
                if isinstance(kind, type | NewType) or get_origin(kind) is not None:
                    problem = f"the result type {_type_name(kind)} has no JSON schema: {_why_none(error)}"
        return self._reject(problem, _KINDS)

    def _label(self, value: JsonValue) -> str:
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
            self._refuse(misfits_found(error))
        return json_value(adapter.dump_python(checked, mode="json", by_alias=True), f"The task {self._task!r}")

    def _refuse(self, problems: str) -> NoReturn:
        raise ToolFailed(f"The result does not fit: {problems}.", fix="Give one that fits.")

    def _reject(self, problem: str, fix: str) -> NoReturn:
        raise FlowDefinitionError(f"Task {self._task!r}: {problem}.", fix=fix)


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type | NewType) and get_origin(kind) is None else repr(kind)


def _why_none(error: Exception) -> str:
    """Why pydantic has no JSON schema of a type, without its advice on how to make it look away."""
    code = getattr(error, "code", None)
    if code == "class-not-fully-defined" or isinstance(error, PydanticUndefinedAnnotation):
        return "a name in it is not defined"
    if code == "typed-dict-version":
        return "before Python 3.12 TypedDict has to come from typing_extensions"
    return "pydantic cannot read such values from JSON"


def _as_argument(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The schema of an object that has a value of this one as `result`. References are to the definitions of the whole."""
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    result = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    return {
        "type": "object",
        "properties": {"result": result},
        "required": ["result"],
        "additionalProperties": False,
        **definitions,
    }
