"""How large a value is, as far as that matters: a huge one is not read to its end."""

from collections.abc import Iterator, Mapping
from itertools import chain

_MARKS = 2
"""What quotes, commas and short numbers take at least."""


def least_bytes(value: object, most: int) -> int:
    """At least how many bytes the value takes as JSON. Stops counting above `most`, so it takes no longer than that."""
    count, open_ = 0, [iter((value,))]
    while open_ and count <= most:
        inner = _count_on(open_[-1])
        for each, inside in inner:
            count += _MARKS + (len(each) if isinstance(each, str) else 0)
            if inside is not None:
                open_.append(inside)
            if inside is not None or count > most:
                break
        else:
            open_.pop()
    return count


def _count_on(values: Iterator[object]) -> Iterator[tuple[object, Iterator[object] | None]]:
    """Each value, with what stands in it if it is an object or a list."""
    for value in values:
        if isinstance(value, Mapping):
            yield value, chain.from_iterable(value.items())
        else:
            yield value, iter(value) if isinstance(value, list | tuple) else None
