"""Validates plain data against pydantic models, with error messages for people who write YAML."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from turnwise.config.document import kind_of
from turnwise.config.places import Document, Where
from turnwise.facts.errors import ConfigError
from turnwise.facts.spelling import did_you_mean

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
}


def validated(
    document: Document, where: Where, model: type[Model], data: Mapping[str, Any], kind: type[ConfigError] = ConfigError
) -> Model | None:
    """Validates the data. Returns None after it reported every problem to the document.

    Values are read as JSON: lists become tuples, but text and numbers are not converted to each other.
    """
    try:
        return model.model_validate_json(json.dumps(data), strict=True, extra="forbid")
    except ValidationError as error:
        for mistake in mistakes(error, model):
            document.report((*where, *mistake.where), mistake.problem, mistake.fix, kind)
        return None


class Mistake(NamedTuple):
    """One invalid value: its location, the problem and the fix."""

    where: Where
    problem: str
    fix: str


def mistakes(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """Translates a pydantic error about data of that model."""
    found = error.errors(include_url=False)
    return [Mistake(tuple(each["loc"]), *_problem_and_fix(each, tuple(each["loc"]), model)) for each in found]


def _problem_and_fix(found: Any, loc: Where, model: type[BaseModel]) -> tuple[str, str]:
    kind, given, context = found["type"], found["input"], found.get("ctx", {})
    key = _key_name(loc)
    if kind == "extra_forbidden":
        return f"There is no key {key} here.", did_you_mean(str(loc[-1]), _fields_at(model, loc[:-1]))
    if kind == "missing":
        return f"The key {key} is missing.", "Add it."
    if kind == "json_invalid":
        return f"This is not JSON: {context['error']}.", ""
    if kind in _EXPECTED:
        quote = kind == "string_type" and isinstance(given, bool | int | float)
        fix = "Put it in quotes." if quote else f"Write {_EXPECTED[kind]}."
        return f"{key} should be {_EXPECTED[kind]}, but is {kind_of(given)}.", fix
    if kind == "literal_error":
        return f"{key} should be {context['expected']}.", did_you_mean(str(given), _choices(context["expected"]))
    message = found["msg"].removeprefix("Value error, ")
    return (f"{key}: {message}" if message[:5] != "Input" else message.replace("Input", key, 1)).rstrip(".") + ".", ""


def _key_name(loc: Where) -> str:
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return repr(text) if text else "This"


def _choices(expected: str) -> list[str]:
    return [part for part in expected.replace(" or ", ", ").replace("'", "").split(", ") if part]


def _fields_at(model: type[BaseModel], loc: Where) -> list[str]:
    """The keys that the model allows at that location. Follows nested models in tuples, lists and unions."""
    at = model
    for step in loc:
        field = at.model_fields.get(step) if isinstance(step, str) else None
        if field is not None:
            inner = _model_in(field.annotation)
            if inner is None:
                return []
            at = inner
    return list(at.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
