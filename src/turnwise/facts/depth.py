"""How deeply values are nested: what stands too deep can be written as JSON, and never be read again."""

from collections.abc import Mapping, Sequence

from turnwise.facts.content import Content

DEEPEST = 100
"""How many objects and lists may stand in each other in a value. JSON is read up to 200, those of the log around it."""


def is_deep(value: object, most: int = DEEPEST) -> bool:
    """Whether more than so many objects and lists stand in each other there."""
    level: Sequence[object] = [value] if isinstance(value, Mapping | list | tuple) else []
    for _ in range(most):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return bool(level)


def holds_deep(content: Content) -> bool:
    """Whether a part of it holds a value that is nested too deep."""
    for part in content.parts:
        held = [part.model_extra, *(getattr(part, name, None) for name in ("data", "result", "arguments"))]
        if any(is_deep(value) for value in held):
            return True
    return is_deep(content.model_extra)


def _inside(value: object) -> Sequence[object]:
    """The objects and lists that stand right in it."""
    held = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [each for each in held if isinstance(each, Mapping | list | tuple)]
