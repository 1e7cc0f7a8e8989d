"""Text normalization: maps texts that read the same to one form (behaviour C2). Agents receive the original text."""

import re
import unicodedata

# Invisible: soft hyphen, joiners, direction marks, byte order mark, variation selectors, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_REPEATED = re.compile(r"([!?.,])\1+")
# Matches every character that is, or decomposes to, combining marks only.
_MAY_BE_MARKS = re.compile(r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){31,}")
MARKS_IN_A_ROW = 30
"""Further combining marks are dropped, as in the Stream-Safe Text Format (UAX #15): sorting them takes quadratic time."""


def normalize(text: str, *, fold: bool = False) -> str:
    """Returns the text in NFKC with insignificant differences removed; `fold` also removes case.

    Control and invisible characters are removed. Space and line breaks collapse to one space and are stripped at the ends. A
    repeated `!`, `?`, `.` or `,` collapses to one. A lone surrogate becomes U+FFFD, so the result can always be encoded.
    Idempotent.
    """
    text = composed(_CONTROL.sub("", text))
    if fold:
        text = text.casefold()
        if not text.isascii():
            # Folding can undo the composition, and compatibility forms can fold further.
            text = _nfkc(_nfkc(text).casefold())
    return _REPEATED.sub(r"\1", _SPACE.sub(" ", text)).strip()


def composed(text: str) -> str:
    """Returns the text in NFKC without invisible characters. Space and control characters stay. Idempotent."""
    return text if text.isascii() else _nfkc(strip_invisible(_SURROGATE.sub("\ufffd", text)))


def with_few_marks(text: str) -> str:
    """Returns the text with at most 30 combining marks in a row. Unicode normalization then takes linear time."""
    return _MAY_BE_MARKS.sub(_first_marks, text)


def _first_marks(found: re.Match[str]) -> str:
    """Returns a run of characters with at most MARKS_IN_A_ROW combining marks after each other."""
    kept: list[str] = []
    in_a_row = 0
    for char in found[0]:
        in_a_row = in_a_row + 1 if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) else 0
        if in_a_row <= MARKS_IN_A_ROW:
            kept.append(char)
    return "".join(kept)


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", with_few_marks(text))


def legible(text: str) -> str:
    """Returns the normalized text, with symbols such as emoji separated from words by spaces.

    A WordPiece encoder cannot read a word that contains an unknown character.
    """
    plain = normalize(text)
    if plain.isascii():
        return plain
    return normalize("".join(f" {char} " if unicodedata.category(char) in {"So", "Sk"} else char for char in plain))


def strip_invisible(text: str) -> str:
    """Returns the text without zero-width characters, which must not affect matching."""
    return _INVISIBLE.sub("", text)
