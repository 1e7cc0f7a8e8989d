"""The archive: short texts of a city's newspaper, and a search for sentences in them."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import log
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("archive")

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[a-z]+")
_COMMON = frozenset(
    {"a", "about", "all", "an", "and", "are", "article", "as", "at", "by", "for", "from", "how", "in", "is", "it", "me"}
    | {"of", "on", "or", "please", "story", "tell", "text", "that", "the", "to", "was", "were", "what", "with", "write"}
)


class Sentence(NamedTuple):
    """One sentence of the archive. source: the file; place: which sentence of it, from 0."""

    text: str
    source: str
    title: str
    day: str
    place: int


@cache
def sentences() -> Sequence[Sentence]:
    """All sentences, text by text."""
    found: list[Sentence] = []
    for path in sorted(FOLDER.glob("*.txt")):
        title, day, body = path.read_text("utf-8").split("\n", 2)
        for place, text in enumerate(_SENTENCE.split(body.strip())):
            found.append(Sentence(text, path.stem, title, day, place))
    return tuple(found)


def titles() -> Sequence[str]:
    """What the archive has texts about."""
    return tuple(dict.fromkeys(sentence.title for sentence in sentences()))


def search(query: str, most: int = 8) -> Sequence[Sentence]:
    """The sentences that fit best, by day and place: those of texts that hold the rarest words of the query. Empty when no
    text holds any.
    """
    asked = set(words(query))
    texts = _texts()
    weights = {word: log(1 + len(texts) / texts_with) for word, texts_with in _rarity().items() if word in asked}
    scores = {source: sum(weights.get(word, 0.0) for word in held) for source, held in texts.items()}
    best = max(scores.values(), default=0.0)
    if not best:
        return ()
    near = {source for source, score in scores.items() if score >= best * 0.6}
    fitting = [each for each in sentences() if each.source in near]
    ranked = sorted(fitting, key=lambda each: -sum(weights.get(word, 0.0) for word in set(words(f"{each.title} {each.text}"))))
    return tuple(sorted(ranked[:most], key=lambda each: (each.day, each.place)))


def words(text: str) -> list[str]:
    """The words that say something, in lower case and without a plural's s."""
    return [word.removesuffix("s") for word in _WORD.findall(text.lower()) if word not in _COMMON]


@cache
def _texts() -> dict[str, frozenset[str]]:
    held: dict[str, set[str]] = {}
    for each in sentences():
        held.setdefault(each.source, set()).update(words(f"{each.title} {each.text}"))
    return {source: frozenset(every) for source, every in held.items()}


@cache
def _rarity() -> Counter[str]:
    return Counter(word for held in _texts().values() for word in held)
