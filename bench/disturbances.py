"""Makes messages more realistic: adds typing errors, and other sentences before a request."""

import random
import re
from collections.abc import Sequence

_WORD = re.compile(r"[a-z]{4,}", re.IGNORECASE)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    key: row[max(place - 1, 0) : place] + row[place + 1 : place + 2] for row in _KEYS for place, key in enumerate(row)
}


def slipped(text: str, chance: random.Random) -> str:
    """The text with one typing error in a word of four letters or more: a letter omitted, doubled, swapped or replaced by a
    neighbouring key.
    """
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = chance.choice(words)
    at = chance.randrange(word.start(), word.end() - 1)
    before, letter, following, after = text[:at], text[at], text[at + 1], text[at + 2 :]
    hit = chance.choice(_NEIGHBOURS[letter.lower()])
    return before + chance.choice((following, letter * 2 + following, following + letter, hit + following)) + after


def behind(text: str, chance: random.Random, *, others: Sequence[str], count: int) -> str:
    """The text after that many sentences of other texts."""
    return " ".join([*(f"{chance.choice(others).rstrip(' .!?')}." for _ in range(count)), text])
