"""Checks how deeply values are nested. JSON that is nested too deeply can be written but not read again."""

from collections.abc import Mapping, Sequence

from turnwise.facts.content import Content

DEEPEST = 100
"""The maximum nesting of objects and lists in a value. The JSON parser allows 200, including the levels of the log around
it.
"""


def is_deep(value: object, most: int = DEEPEST) -> bool:
    """Returns whether the value nests more than `most` objects and lists."""
    level: Sequence[object] = [value] if isinstance(value, Mapping | list | tuple) else []
    for _ in range(most):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return bool(level)


def holds_deep(content: Content) -> bool:
    """Returns whether a part of the content holds a value that is nested too deeply."""
    for part in content.parts:
        values = [part.model_extra, *(getattr(part, name, None) for name in ("data", "result", "arguments"))]
        if any(is_deep(value) for value in values):
            return True
    return is_deep(content.model_extra)


def _children(value: object) -> Sequence[object]:
    """Returns the objects and lists directly inside the value."""
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [item for item in values if isinstance(item, Mapping | list | tuple)]
