"""Patterns over bytes (RE2: linear, whatever the text)."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import re2

from turnwise.guardrails.reading import LETTER


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
    """Whether no letter or digit, nor any of these other characters, stands right before or after that piece.

    after: counts only if a digit follows: a full stop may end a sentence.
    """
    if not begins_a_word(data, start) or (start > 0 and data[start - 1] in before):
        return False
    if end >= len(data):
        return True
    goes_on = data[end] in after and data[end + 1 : end + 2].isdigit()
    return not (_is_word(data[end]) or goes_on)


def begins_a_word(data: bytes, start: int) -> bool:
    """Whether no letter or digit stands right before."""
    return start == 0 or not _is_word(data[start - 1])


def _is_word(byte: int) -> bool:
    return byte == LETTER or bytes([byte]).isalnum()
