"""Text rules of guardrails: an ASCII view of the text, the findings in it, and their replacement by labels."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import re2

from turnwise.matching.normalize import strip_invisible


@cache
def compiled(pattern: bytes) -> Any:
    """Returns the compiled pattern for `NormalizedText.data`. Cached."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options)


def spans(pattern: bytes, data: bytes, group: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the spans of the pattern's matches, or of one of its groups; no two overlap."""
    for match in compiled(pattern).finditer(data):
        yield match.span(group)


def is_isolated(data: bytes, start: int, end: int, *, before: bytes = b"", after: bytes = b"") -> bool:
    """Returns whether a span is not part of a longer word or number.

    No ASCII letter or digit may touch it. Letters outside ASCII do not count: matches hold none, and many scripts have no
    spaces.

    Args:
        data: The normalized text.
        start: Start of the span.
        end: End of the span.
        before: Further characters that may not precede it. A full stop or comma counts only after a digit, a dash or slash only
            after a letter or digit.
        after: Further characters that may not follow it. They count only before a digit, as a full stop may end a sentence.
    """
    if start > 0 and (_is_word(data[start - 1]) or (data[start - 1] in before and _continues_before(data, start - 1))):
        return False
    if end >= len(data):
        return True
    continues = data[end] in after and data[end + 1 : end + 2].isdigit()
    return not (_is_word(data[end]) or continues)


def _is_word(byte: int) -> bool:
    """Returns whether the byte is an ASCII letter or digit."""
    return bytes([byte]).isalnum()


def _continues_before(data: bytes, at: int) -> bool:
    """Returns whether the character at `at` joins the text before it to the text after it."""
    previous = data[max(0, at - 1) : at]
    if data[at] in b".,":
        return previous.isdigit()
    return previous.isalnum() if data[at] in b"-/" else True


LETTER, OTHER = 0xE0, 0xA6
"""Bytes that stand for a letter, and for any other character, without an ASCII equivalent."""


class NormalizedText(NamedTuple):
    """A text as ASCII bytes, with a map back to the text."""

    data: bytes
    """ASCII stays. Look-alikes (full-width forms, other digits, dashes, spaces, quotes) become ASCII. Other letters become
    LETTER,
    anything else OTHER. Invisible characters are dropped.
    """
    places: tuple[int, ...] | None = None
    """The position in the text of each byte's character; None = the same positions."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the span of the text that a span of the data covers, invisible characters included."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def normalized(text: str) -> NormalizedText:
    """Normalizes a text. Accepts any text."""
    if text.isascii():
        return NormalizedText(text.encode())
    encoded = [_byte(char) for char in text]
    return NormalizedText(b"".join(encoded), tuple(position for position, byte in enumerate(encoded) if byte))


@lru_cache(maxsize=4_096)
def _byte(char: str) -> bytes:
    """Returns the ASCII byte that rules see for a character; none for an invisible one."""
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
    """A match: its span in `NormalizedText.data` and its kind."""

    start: int
    end: int
    kind: str


Find = Callable[[bytes], Iterable[Finding]]
"""Returns the findings of a rule, in any order; no two overlap. A match holds a character that no label has."""


def kinds_in(text: str, find: Find) -> set[str]:
    """Returns the kinds of the findings in the text."""
    return {finding.kind for finding in find(normalized(text).data)}


def with_labels(text: str, find: Find) -> str:
    """Returns the text with `[kind]` in place of each finding, repeated until nothing is found. Idempotent."""
    while found := sorted(find((reading := normalized(text)).data)):
        pieces, at = [], 0
        for finding in found:
            start, end = reading.span(finding.start, finding.end)
            pieces += [text[at:start], f"[{finding.kind}]"]
            at = end
        text = "".join((*pieces, text[at:]))
    return text
