"""Splits a message into its clauses: an acceptance or answer, a request, an aside. Pure."""

import re
from functools import lru_cache

from turnwise.matching.normalize import normalize
from turnwise.matching.sentences import ends_sentence
from turnwise.matching.text_features import text_features

READ_CHARACTERS = 600
"""Maximum length of a message that is split into clauses; longer ones tend to be stories."""
MAX_CLAUSES = 3
"""Maximum number of clauses that are read; of more, the first and the last two."""
_CACHE_SIZE = 1_024
_FEWEST_WORDS = 2
_ENDS = re.compile(r"(?<=[.!?;:])\s+|\n+|\s[-–—]\s|,\s+(?=(?:and|but|so|also|then|can|could|would|i|please)\b)", re.IGNORECASE)


@lru_cache(_CACHE_SIZE)
def clauses_of(text: str) -> tuple[str, ...]:
    """Returns the clauses with content, in order; empty when the message has a single clause."""
    if len(text) > READ_CHARACTERS:
        return ()
    plain = normalize(text)
    parts, start = [], 0
    for end in _ENDS.finditer(plain):
        if ends_sentence(plain, end.start()):
            parts.append(plain[start : end.start()].strip())
            start = end.end()
    parts.append(plain[start:].strip())
    found = [part for part in parts if part]
    if len(found) < 2:
        return ()
    telling = [part for part in found if text_features(part).words >= _FEWEST_WORDS and text_features(part).content >= 1]
    return tuple(telling if len(telling) <= MAX_CLAUSES else (telling[0], *telling[-(MAX_CLAUSES - 1) :]))
