"""Two requests in one message: where it can be taken apart."""

import re

from turnwise.matching.clues import clues
from turnwise.matching.normalize import normalize
from turnwise.matching.sentences import ends_sentence

READ_CHARACTERS = 600
"""Longer messages are not taken apart: they tell a story."""
_FEWEST_WORDS = 3
_SENTENCES = re.compile(r"(?<=[.!?;])\s+(?:(?:then|and|also|plus)[,\s]+)*", re.IGNORECASE)
_JOINTS = re.compile(
    r"\s*,?\s+(?:and|plus|also|then)(?:\s+(?:also|then|please|after that|in addition))*\s+|\s*[;\n]\s*", re.IGNORECASE
)


def halves(text: str) -> tuple[str, str] | None:
    """The two parts of a message that seems to ask for two things; None when it does not.

    It is taken apart at a sentence's end or at a joining word, where both sides ask for something or have something to say.
    """
    if len(text) > READ_CHARACTERS:
        return None
    plain = normalize(text)
    ends = (each for each in _SENTENCES.finditer(plain) if ends_sentence(plain, each.start()))
    for joint in (*ends, *_JOINTS.finditer(plain)):
        first, second = plain[: joint.start()].strip(), plain[joint.end() :].strip()
        if _asks(first) and _asks(second):
            return first, second
    return None


def _asks(part: str) -> bool:
    found = clues(part)
    asking = found.asks or found.imperative or found.question_word
    return found.words >= _FEWEST_WORDS and found.content >= (1 if asking else 2)
