"""Estimates the size of a value without reading all of a large one."""

from collections.abc import Iterator, Mapping
from itertools import chain

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
