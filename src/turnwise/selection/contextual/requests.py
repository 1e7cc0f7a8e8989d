"""Finds several requests in one message: two requests, or an answer and a request. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from turnwise.matching.normalize import normalize
from turnwise.matching.sentences import ends_sentence
from turnwise.matching.text_features import text_features

READ_CHARACTERS = 600
"""Maximum length of a message that is split into requests; longer ones tend to be stories."""
MAX_PARTS = 4
"""Maximum number of parts that are read beside an answer."""

_FEWEST_WORDS = 3
_SENTENCES = re.compile(r"(?<=[.!?;])\s+(?:(?:then|and|also|plus|oh|but)[,\s]+)*", re.IGNORECASE)
# They read normalized text, which has no two spaces in a row.
_JOINTS = re.compile(r" ?,? (?:and|plus|also|then)(?: (?:also|then|please|after that|in addition))* | ?; ?", re.IGNORECASE)
_TURNS = re.compile(
    r", (?:(?:but|so) )?(?=(?:until |since )?(?:what|when|where|who|whom|why|which|how|can|could|would|will|do|does|did|is"
    r"|are|may|please|i need|i want|i'd)\b)|,? but (?=\w)",
    re.IGNORECASE,
)


class Part(NamedTuple):
    """A part of a message."""

    text: str
    asks: bool
    """Has a request's words."""


def split_requests(text: str) -> tuple[str, str] | None:
    """Splits a message into two requests; None when it does not seem to contain two.

    It splits at a sentence's end or a conjunction, if both sides contain a request or enough content.
    """
    for first, second in _splits(text):
        if _tells(first) and _tells(second):
            return first, second
    return None


def parts_beside_answer(text: str) -> tuple[Part, ...]:
    """Returns the ends of a message that may be requests beside an answer before them, the longest first.

    Empty when the message takes back what was asked ("never mind"): then nothing is answered.
    """
    if text_features(text).never_mind:
        return ()
    ends = dict.fromkeys(second for first, second in _splits(text) if first and _tells(second))
    return tuple(Part(end, _asks(end)) for end in sorted(ends, key=len, reverse=True)[:MAX_PARTS])


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yields both sides of each place where a message may be split: sentences' ends, conjunctions, and turns such as "but"."""
    if len(text) > READ_CHARACTERS:
        return
    plain = normalize(text)
    ends = (each for each in _SENTENCES.finditer(plain) if ends_sentence(plain, each.start()))
    for joint in (*ends, *_JOINTS.finditer(plain), *_TURNS.finditer(plain)):
        yield plain[: joint.start()].strip(), plain[joint.end() :].strip()


def _tells(part: str) -> bool:
    found = text_features(part)
    return found.words >= _FEWEST_WORDS and found.content >= (1 if _has_request(part) else 2)


def _asks(part: str) -> bool:
    return _has_request(part) or text_features(part).question_mark


def _has_request(part: str) -> bool:
    found = text_features(part)
    return found.asks or found.imperative or found.question_word
