"""What rules find in a text, and the text with labels in its place."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import re2

from turnwise.matching.normalize import strip_invisible


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


def is_isolated(data: bytes, start: int, end: int, *, before: bytes = b"", after: bytes = b"") -> bool:
    """Whether the piece is no part of a longer word or number: whether no ASCII letter or digit, nor one of the other
    characters, stands right before or after it.

    before: a full stop or comma counts only after a digit, a dash or slash only after a letter or digit, any other character
    always. after: counts only if a digit follows, as a full stop may end a sentence. Letters outside ASCII end a word: what
    is looked for holds none, and many scripts are written without spaces.
    """
    if start > 0 and (_is_word(data[start - 1]) or (data[start - 1] in before and _continues_before(data, start - 1))):
        return False
    if end >= len(data):
        return True
    goes_on = data[end] in after and data[end + 1 : end + 2].isdigit()
    return not (_is_word(data[end]) or goes_on)


def _is_word(byte: int) -> bool:
    """Whether the byte is an ASCII letter or digit."""
    return bytes([byte]).isalnum()


def _continues_before(data: bytes, at: int) -> bool:
    """Whether the character at that place joins what stands before it to what follows."""
    previous = data[max(0, at - 1) : at]
    if data[at] in b".,":
        return previous.isdigit()
    return previous.isalnum() if data[at] in b"-/" else True


LETTER, OTHER = 0xE0, 0xA6
"""What is read for a letter, and for anything else, that ASCII has nothing like."""


class NormalizedText(NamedTuple):
    """data: ASCII as it is, what looks like it (full-width forms, other digits, dashes, spaces, quotes) as what it looks
    like, any other letter as LETTER, anything else as OTHER; invisible characters are left out. places: where each byte's
    character stands in the text; None = byte for character.
    """

    data: bytes
    places: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where that piece of the data stands in the text, with the invisible characters in it."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def normalized(text: str) -> NormalizedText:
    """Any text can be read."""
    if text.isascii():
        return NormalizedText(text.encode())
    read_as = [_byte(char) for char in text]
    return NormalizedText(b"".join(read_as), tuple(place for place, byte in enumerate(read_as) if byte))


@lru_cache(maxsize=4_096)
def _byte(char: str) -> bytes:
    if char.isascii():
        return char.encode()
    if not strip_invisible(char):
        return b""
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) == 1 and plain.isascii():
        return plain.encode()
    digit, category = unicodedata.decimal(char, None), unicodedata.category(char)
    if digit is not None:
        return b"%d" % digit
    if category == "Pd":
        return b"-"
    if category in {"Pi", "Pf"}:
        return b'"'
    if char.isspace():
        return b" "
    return bytes([LETTER if char.isalnum() or category.startswith("M") else OTHER])


class Finding(NamedTuple):
    """Where something stands in `Reading.data`, and of what kind it is."""

    start: int
    end: int
    kind: str


Find = Callable[[bytes], Iterable[Finding]]
"""What a rule finds, in any order; no two overlap. In what it finds stands something that no label has."""


def kinds_in(text: str, find: Find) -> set[str]:
    """The kinds of what is found in the text."""
    return {finding.kind for finding in find(normalized(text).data)}


def with_labels(text: str, find: Find) -> str:
    """The text with `[kind]` for whatever is found, until nothing is: again it changes nothing."""
    while found := sorted(find((reading := normalized(text)).data)):
        pieces, at = [], 0
        for finding in found:
            start, end = reading.span(finding.start, finding.end)
            pieces += [text[at:start], f"[{finding.kind}]"]
            at = end
        text = "".join((*pieces, text[at:]))
    return text
