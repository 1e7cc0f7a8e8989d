"""A text as rules read it: one byte for each character, so that places in it are places in the text."""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

from turnwise.matching.normalize import strip_invisible

LETTER, OTHER = 0xE0, 0xA6
"""What is read for a letter, and for anything else, that ASCII has nothing like."""


class Reading(NamedTuple):
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


def read(text: str) -> Reading:
    """Any text can be read."""
    if text.isascii():
        return Reading(text.encode())
    read_as = [_byte(char) for char in text]
    return Reading(b"".join(read_as), tuple(place for place, byte in enumerate(read_as) if byte))


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
