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


def normalize(text: str, *, fold: bool = False) -> str:
    """The text in NFKC without what carries no meaning; with `fold`, without regard to case too.

    Control and invisible characters are taken out, any run of space or line breaks becomes one space, outer space goes,
    and a repeated `!`, `?`, `.` or `,` becomes one. A lone surrogate becomes U+FFFD, so the result can always be encoded.
    Normalizing again changes nothing.
    """
    text = _CONTROL.sub("", composed(text))
    if fold:
        text = text.casefold()
        if not text.isascii():
            # Folding can undo the composition, and compatibility forms can fold further.
            text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _REPEATED.sub(r"\1", _SPACE.sub(" ", text)).strip()


def composed(text: str) -> str:
    """The text in NFKC, without what cannot be seen; space and control characters stay. Composing again changes nothing."""
    return text if text.isascii() else unicodedata.normalize("NFKC", strip_invisible(_SURROGATE.sub("\ufffd", text)))


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
