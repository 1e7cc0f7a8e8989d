"""One form for texts that read the same (behaviour C2). The original is kept for the agent."""

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
# Holds every character that is, or decomposes to, marks alone.
_MAY_BE_MARKS = re.compile(r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){31,}")
MARKS_IN_A_ROW = 30
"""More marks in a row are left out, as in the Stream-Safe Text Format (UAX #15): to sort them costs their number squared."""


def normalize(text: str, *, fold: bool = False) -> str:
    """The text in NFKC without what carries no meaning; with `fold`, without regard to case too.

    Control and invisible characters are taken out, any run of space or line breaks becomes one space, outer space goes,
    and a repeated `!`, `?`, `.` or `,` becomes one. A lone surrogate becomes U+FFFD, so the result can always be encoded.
    Normalizing again changes nothing.
    """
    text = composed(_CONTROL.sub("", text))
    if fold:
        text = text.casefold()
        if not text.isascii():
            # Folding can undo the composition, and compatibility forms can fold further.
            text = _nfkc(_nfkc(text).casefold())
    return _REPEATED.sub(r"\1", _SPACE.sub(" ", text)).strip()


def composed(text: str) -> str:
    """The text in NFKC, without what cannot be seen; space and control characters stay. Composing again changes nothing."""
    return text if text.isascii() else _nfkc(strip_invisible(_SURROGATE.sub("\ufffd", text)))


def with_few_marks(text: str) -> str:
    """The text with at most 30 combining marks in a row: only then does Unicode normalization take linear time."""
    return _MAY_BE_MARKS.sub(_first_marks, text)


def _first_marks(found: re.Match[str]) -> str:
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
    """The text as `normalize` gives it, with symbols such as emoji set apart from words.

    To an encoder that reads pieces of words, a word with a character it does not know is no word at all.
    """
    plain = normalize(text)
    if plain.isascii():
        return plain
    return normalize("".join(f" {char} " if unicodedata.category(char) in {"So", "Sk"} else char for char in plain))


def strip_invisible(text: str) -> str:
    """The text without characters of no width: what one cannot see should not decide whether something matches."""
    return _INVISIBLE.sub("", text)
