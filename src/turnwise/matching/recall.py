"""Ranks the entries of a memory for a query: by words (BM25), by meaning, and by both. Pure: knows no store."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TERM_CHARACTERS = 48
"""Longer words are cut."""
ENTRY_TERMS = 512
"""The most different words of one entry."""
QUERY_TERMS = 64
"""The most different words of a query."""
K1, B = 1.2, 0.75
FUSION_RANK = 60.0

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_FREQUENT = frozenset(
    "a an and are as at be been but by did do does for from had has have he her him his how i if in is it its me my of on or our"
    " she so that the their them they this to was we were what when where which who why will with you your".split()
)


def terms(text: str) -> Counter[str]:
    """Returns the words of a text with their counts: folded, without the most frequent words of English.

    In scripts without spaces, each pair of neighbouring characters is a word.
    """
    words: Counter[str] = Counter()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if (unspaced := _UNSPACED.search(word)) is not None:
            run = unspaced[0]
            words.update([run[at : at + 2] for at in range(max(1, len(run) - 1))])
        elif word not in _FREQUENT:
            words[_stem(word)[:TERM_CHARACTERS]] += 1
    return words


def _stem(word: str) -> str:
    """Returns an English word without the ending of its plural."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word.isascii():
        return word[:-3] + "y" if len(word) > 4 and word.endswith("ies") else word[:-1]
    return word


class Postings(NamedTuple):
    """The entries that have one word."""

    numbers: "NDArray[np.int64]"
    counts: "NDArray[np.float32]"
    """How often each has it."""
    lengths: "NDArray[np.float32]"
    """How many words each has."""


class Scored(NamedTuple):
    """Entries with scores, best first."""

    numbers: "NDArray[np.int64]"
    scores: "NDArray[np.float32]"


def by_words(postings: Mapping[str, Postings], entries: int, words: int) -> Scored:
    """Returns the entries that have a word of the query, scored by BM25.

    Args:
        postings: Those of the query's words.
        entries: The number of entries of the user.
        words: The number of words of all these entries.
    """
    import numpy as np

    found = [each for each in postings.values() if len(each.numbers)]
    if not found:
        return Scored(np.empty(0, np.int64), np.empty(0, np.float32))
    average = max(1.0, words / max(1, entries))
    numbers, places = np.unique(np.concatenate([each.numbers for each in found]), return_inverse=True)
    scores = np.zeros(len(numbers), np.float32)
    at = 0
    for each in found:
        frequency = len(each.numbers)
        weight = np.log(1.0 + max(0.0, entries - frequency + 0.5) / (frequency + 0.5))
        scaled = each.counts + K1 * (1.0 - B + B * each.lengths / average)
        scores[places[at : at + frequency]] += weight * each.counts * (K1 + 1.0) / scaled
        at += frequency
    return _sorted(numbers, scores)


def by_meaning(vector: "NDArray[np.float32]", numbers: "NDArray[np.int64]", vectors: "NDArray[np.float32]") -> Scored:
    """Returns the entries scored by the cosine of their vectors and the query's."""
    return _sorted(numbers, vectors @ vector)


def fused(rankings: Sequence[Scored]) -> Scored:
    """Returns the entries of several rankings, scored by reciprocal rank."""
    import numpy as np

    numbers, places = np.unique(np.concatenate([each.numbers for each in rankings]), return_inverse=True)
    scores = np.zeros(len(numbers), np.float32)
    at = 0
    for each in rankings:
        count = len(each.numbers)
        scores[places[at : at + count]] += 1.0 / (FUSION_RANK + 1.0 + np.arange(count, dtype=np.float32))
        at += count
    return _sorted(numbers, scores)


def _sorted(numbers: "NDArray[np.int64]", scores: "NDArray[np.float32]") -> Scored:
    """Returns them best first; of equal ones, the newer first."""
    import numpy as np

    order = np.lexsort((-numbers, -scores))
    return Scored(numbers[order], scores[order])
