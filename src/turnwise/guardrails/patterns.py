"""Patterns over bytes (RE2: linear, whatever the text)."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import re2


@cache
def compiled(pattern: bytes) -> Any:
    """The pattern, compiled once, over `Reading.data`."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options)


def spans(pattern: bytes, data: bytes, group: int = 0) -> Iterator[tuple[int, int]]:
    """Where the pattern, or a group of it, stands; no two overlap."""
    for match in compiled(pattern).finditer(data):
        yield match.span(group)


def stands_alone(data: bytes, start: int, end: int, *, before: bytes = b"", after: bytes = b"") -> bool:
    """Whether the piece is no part of a longer word or number: whether no ASCII letter or digit, nor one of the other
    characters, stands right before or after it.

    before: a full stop or comma counts only after a digit, a dash or slash only after a letter or digit, any other character
    always. after: counts only if a digit follows, as a full stop may end a sentence. Letters outside ASCII end a word: what
    is looked for holds none, and many scripts are written without spaces.
    """
    if start > 0 and (_is_word(data[start - 1]) or (data[start - 1] in before and _goes_on_before(data, start - 1))):
        return False
    if end >= len(data):
        return True
    goes_on = data[end] in after and data[end + 1 : end + 2].isdigit()
    return not (_is_word(data[end]) or goes_on)


def _is_word(byte: int) -> bool:
    """Whether the byte is an ASCII letter or digit."""
    return bytes([byte]).isalnum()


def _goes_on_before(data: bytes, at: int) -> bool:
    """Whether the character at that place joins what stands before it to what follows."""
    previous = data[max(0, at - 1) : at]
    if data[at] in b".,":
        return previous.isdigit()
    return previous.isalnum() if data[at] in b"-/" else True
