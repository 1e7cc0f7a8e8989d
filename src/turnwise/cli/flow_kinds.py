"""What kind of result a task has, in few words."""

from collections.abc import Mapping
from typing import Any

from turnwise.flows.tasks.results import ResultType

_DEPTH = 4
_ANYTHING = "data"


def kind_in_words(result: ResultType) -> str:
    """`text`, `integer`, `list of Note`, `one of yes, no`; `data` for what has no short name."""
    if result.labels:
        return f"one of {', '.join(result.labels)}"
    return "text" if result.schema is None else _kind(result.schema, _DEPTH)


def _kind(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or not depth:
        return _ANYTHING
    reference, title, kind = schema.get("$ref"), schema.get("title"), schema.get("type")
    if isinstance(reference, str):
        return reference.rpartition("/")[2] or _ANYTHING
    if isinstance(title, str):
        return title
    if isinstance(schema.get("enum"), list):
        return f"one of {', '.join(map(str, schema['enum']))}"
    if isinstance(schema.get("anyOf"), list):
        return " or ".join(dict.fromkeys(_kind(each, depth - 1) for each in schema["anyOf"]))
    if kind == "array":
        return f"list of {_kind(schema.get('items'), depth - 1)}"
    if kind == "string":
        return "text"
    return kind if isinstance(kind, str) else _ANYTHING
