"""Whether a message names an agent: its name's words, in simple stems, among the message's."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from turnwise.selection.phrases import words_of

_REMEMBERED = 16_384
_BEARERS = 20
_EMPTY = frozenset(("team", "department", "desk", "specialist", "the", "of", "and", "for", "a", "an", "to", "my", "in", "on"))


@lru_cache(_REMEMBERED)
def stem(word: str) -> str:
    """The word, folded, without its commonest English endings; long enough ones only."""
    word = word.casefold().removesuffix("'s")
    for ending, least in (("ies", 6), ("ings", 8), ("ing", 7), ("ed", 6), ("es", 6), ("s", 4), ("e", 5)):
        if word.endswith(ending) and len(word) >= least:
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word


class Names:
    """The words of agents' names, to be found in messages. Immutable."""

    def __init__(self, names: Iterable[str]) -> None:
        self._words: dict[str, tuple[str, ...]] = {}
        self._bearers: dict[str, list[str]] = defaultdict(list)
        for name in names:
            words = [word for word in words_of(name).split() if len(word) >= 2] or [name]
            telling = [word for word in words if word.casefold() not in _EMPTY] or words
            self._words[name] = tuple(dict.fromkeys(map(stem, telling)))
            for word in self._words[name]:
                self._bearers[word].append(name)

    def named(self, tokens: Sequence[str]) -> Mapping[str, float]:
        """How much of each agent's name stands among the tokens, 0 to 1, for those of whom something does.

        A word that several names have counts divided by how many have it; one that very many have does not count.
        """
        found: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(map(stem, tokens)):
            bearers = self._bearers.get(word, ())
            if len(bearers) <= _BEARERS:
                for name in bearers:
                    found[name] += 1.0 / len(self._words[name]) / len(bearers)
        return found
