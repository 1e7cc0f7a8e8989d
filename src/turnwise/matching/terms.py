"""The words under which a text is found: folded, without endings and frequent words, and the name of its speaker."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from turnwise.matching.normalize import strip_invisible, with_few_marks

TERM_CHARACTERS = 48
"""Longer words are cut."""
ENTRY_TERMS = 512
"""Maximum number of different words of an entry."""
QUERY_TERMS = 64
"""Maximum number of different words of a query."""
SPEAKER = "@"
"""The first character of a speaker's name as a term; no word has it."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_NAMED = re.compile(r"\s*([^\W\d_][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2}):\s")
_VOWELS = frozenset("aeiouy")
_FREQUENT_WORDS = (
    "a about all also am an and any are as at be been being but by can could did do does doing done don for from had has have"
    " having he her here hers him his how i if in into is isn it its just ll m many may me might mine more most much must my no"
    " not of off on only or other our out over own re s same shall she should so some such t than that the their them then"
    " there these they this those to too up us ve very was we were what when where which who whom whose why will with would"
    " yes you your yours d didn doesn"
)
_FREQUENT = frozenset(_FREQUENT_WORDS.split())


def terms(text: str) -> Counter[str]:
    """Returns the words of a text with their counts, at most `ENTRY_TERMS`: the most frequent, else the first.

    A text that begins with `Name:` also has its speaker's name, marked with `SPEAKER`. In scripts without spaces, each pair
    of adjacent characters is a word.
    """
    found = Counter(_words(_folded(text)))
    named = _NAMED.match(text)
    if named is not None:
        found.update({SPEAKER + word[:TERM_CHARACTERS]: 1 for word in _WORD.findall(_folded(named[1]))})
    return Counter(dict(found.most_common(ENTRY_TERMS))) if len(found) > ENTRY_TERMS else found


def query_terms(text: str) -> tuple[str, ...]:
    """Returns the terms that a query looks up: at most `QUERY_TERMS` words, and as many names of speakers."""
    folded = _folded(text)
    words = dict.fromkeys(_words(folded))
    names = dict.fromkeys(SPEAKER + word[:TERM_CHARACTERS] for word in _WORD.findall(folded) if word not in _FREQUENT)
    return (*list(words)[:QUERY_TERMS], *list(names)[:QUERY_TERMS])


def name_word(name: str) -> str:
    """Returns the word as which a speaker's name occurs in a text."""
    return _stem(name.removeprefix(SPEAKER))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", with_few_marks(strip_invisible(text))).casefold()


def _words(folded: str) -> Iterator[str]:
    """Yields the words' stems without frequent words; scripts without spaces as pairs of characters."""
    for word in _WORD.findall(folded):
        unspaced = None if word.isascii() else _UNSPACED.search(word)
        if unspaced is not None:
            run = unspaced[0]
            yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif word not in _FREQUENT:
            yield _stem(word)


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """Returns an English word without the ending of its plural, tense or participle.

    The result is a key, not a word: forms of one word share it. Memory stores these keys: after a change here, stored entries
    are neither found nor removed by their words.
    """
    word = word[:TERM_CHARACTERS]
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word
