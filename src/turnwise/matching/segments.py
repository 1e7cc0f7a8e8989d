"""The parts of a long message. Who tells a story, or pastes a mail, asks for something in one sentence of it."""

import itertools
import re

from turnwise.matching.sentences import split_sentences

MOST_WORDS = 20
"""A message of at most so many words is read whole, and only so."""

_FIRST, _BETWEEN, _LAST = 4, 4, 4  # of a very long one: a request stands where it begins or where it ends
_WORDS, _SPARE, _FEWEST = 16, 6, 3
_READ_CHARACTERS = 4_000  # at either end

_SENTENCES = re.compile(r"(?<=[.!?;:])\s+|(?<!\s)\s*\n\s*")
_CLAUSES = re.compile(r",\s+|(?<!\s)\s+(?=(?:and|but|so|because|then)\s)|\s[-–—]\s")


def segments(text: str) -> list[str]:
    """Sentences, and parts of those that run on; in order, at most twelve: what lies between the first four and the last four
    is put together to four.

    Empty when the text is short, or all of it is one part. Of more than 8,000 characters both ends are looked at.
    """
    if len(text) > 2 * _READ_CHARACTERS:
        parts = _parts(text[:_READ_CHARACTERS]) + _parts(text[-_READ_CHARACTERS:])
    elif len(text.split(maxsplit=MOST_WORDS)) <= MOST_WORDS:
        return []
    else:
        parts = _parts(text)
    if len(parts) > _FIRST + _BETWEEN + _LAST:
        between = parts[_FIRST:-_LAST]
        cuts = [len(between) * cut // _BETWEEN for cut in range(_BETWEEN + 1)]
        joined = [" ".join(between[start:end]) for start, end in itertools.pairwise(cuts)]
        parts = [*parts[:_FIRST], *joined, *parts[-_LAST:]]
    return parts if len(parts) > 1 else []


def _parts(text: str) -> list[str]:
    """All of it: a few words belong to what stands before them."""
    found: list[list[str]] = []
    for sentence in split_sentences(_SENTENCES, text.strip()):
        words = len(sentence.split())
        if found and words < _FEWEST:
            found[-1] += [sentence.strip()] if words else []
        elif words > _WORDS + _SPARE:
            found += [[part] for part in _run_on(sentence)]
        elif words:
            found.append([sentence])
    return [" ".join(part) for part in found]


def _run_on(sentence: str) -> list[str]:
    """A sentence without an end: clauses are joined up to so many words, and one that is longer is cut."""
    found: list[list[str]] = [[]]
    for clause in _CLAUSES.split(sentence):
        words = clause.split()
        if found[-1] and len(found[-1]) + len(words) > _WORDS:
            found.append([])
        found[-1] += words
        while len(found[-1]) > _WORDS + _SPARE:
            found[-1:] = [found[-1][:_WORDS], found[-1][_WORDS:]]
    return [" ".join(words) for words in found]
