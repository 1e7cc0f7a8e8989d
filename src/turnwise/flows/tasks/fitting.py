"""What plainly does not fit a JSON schema. Pure.

Types, `enum`, `const`, `properties`, `required`, `additionalProperties` and `items` are looked at; what else a schema may
say, patterns and references for example, lets everything through: whoever needs more gives a type that pydantic knows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

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


def flaw(schema: object, depth: int = 0) -> str:
    """Why that is no schema, or none that anything could fit; empty when there is nothing to say against it."""
    if not isinstance(schema, dict):
        return f"a schema is an object, not {_shown(schema)}"
    if depth > MOST_DEPTH:
        return f"schemas within each other are more than {MOST_DEPTH} deep"
    properties, required, allowed = schema.get("properties", {}), schema.get("required", []), schema.get("enum", [None])
    unknown = [name for name in _names(schema) if not isinstance(name, str) or name not in _TYPES]
    if unknown:
        return f"{_shown(unknown[0])} is no type, these are: {', '.join(_TYPES)}"
    if not isinstance(properties, dict):
        return f"'properties' is an object of schemas, not {_shown(properties)}"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"'required' is a list of names, not {_shown(required)}"
    if not isinstance(allowed, list) or not allowed:
        return f"'enum' is a list of one value or more, not {_shown(allowed)}"
    within = {f"property {name!r}": each for name, each in properties.items()} | {"items": schema.get("items", True)}
    found = ((place, flaw(each, depth + 1)) for place, each in within.items() if not isinstance(each, bool))
    return next((f"{place}: {problem}" for place, problem in found if problem), "")


def misfits(schema: Mapping[str, Any], value: JsonValue, place: str = "it") -> Iterator[str]:
    """What of the value does not fit, in words that name the place, outermost first. The schema has no flaw."""
    names = _names(schema)
    if names and not any(_is(value, name) for name in names):
        yield f"{place} has to be of type {' or '.join(names)}, not {_shown(value)}"
        return
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(_same(value, each) for each in allowed):
        yield f"{place} has to be {' or '.join(map(_shown, allowed))}, not {_shown(value)}"
    elif isinstance(value, dict):
        yield from _misfits_of_object(schema, value, place)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, each in enumerate(value):
            yield from misfits(schema["items"], each, f"{place}[{number}]")


def _misfits_of_object(schema: Mapping[str, Any], value: dict[str, JsonValue], place: str) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    yield from (f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    for name, each in value.items():
        within = properties.get(name, not closed)
        if within is False:
            yield f"{place}.{name} is not allowed"
        elif isinstance(within, dict):
            yield from misfits(within, each, f"{place}.{name}")


def _names(schema: Mapping[str, Any]) -> Sequence[Any]:
    """The types that the schema allows, by name; none when it names none."""
    names = schema.get("type", [])
    return names if isinstance(names, list) else [names]


def _is(value: JsonValue, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Equal as JSON has it: true is no number."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _shown(value: object) -> str:
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= VALUE_CHARACTERS else written[: VALUE_CHARACTERS - 1] + "…"
