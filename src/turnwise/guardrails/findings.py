"""What rules find in a text, and the text with labels in its place."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from turnwise.guardrails.reading import read


class Finding(NamedTuple):
    """Where something stands in `Reading.data`, and of what kind it is."""

    start: int
    end: int
    kind: str


Find = Callable[[bytes], Iterable[Finding]]
"""What a rule finds, in any order; no two overlap. In what it finds stands something that no label has."""


def kinds_in(text: str, find: Find) -> set[str]:
    """The kinds of what is found in the text."""
    return {finding.kind for finding in find(read(text).data)}


def labelled(text: str, find: Find) -> str:
    """The text with `[kind]` for whatever is found, until nothing is: again it changes nothing."""
    while found := sorted(find((reading := read(text)).data)):
        pieces, at = [], 0
        for finding in found:
            start, end = reading.span(finding.start, finding.end)
            pieces += [text[at:start], f"[{finding.kind}]"]
            at = end
        text = "".join((*pieces, text[at:]))
    return text
