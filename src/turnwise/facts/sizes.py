"""Estimates the size of a value without reading all of a large one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from turnwise.facts.content import Content

_MIN_OVERHEAD = 2
"""The minimum for quotes, commas and short numbers."""


def least_bytes(value: object, most: int) -> int:
    """Returns a lower bound of the value's size as JSON, in bytes. Stops counting above `most`."""
    count, open_ = 0, [iter((value,))]
    while open_ and count <= most:
        inner = _with_contents(open_[-1])
        for each, inside in inner:
            count += _MIN_OVERHEAD + (len(each) if isinstance(each, str) else 0)
            if inside is not None:
                open_.append(inside)
            if inside is not None or count > most:
                break
        else:
            open_.pop()
    return count


def _with_contents(values: Iterator[object]) -> Iterator[tuple[object, Iterator[object] | None]]:
    """Yields each value, with an iterator over its contents if it is an object or a list."""
    for value in values:
        if isinstance(value, Mapping):
            yield value, chain.from_iterable(value.items())
        else:
            yield value, iter(value) if isinstance(value, list | tuple) else None


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
