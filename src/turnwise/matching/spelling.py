"""Slips of the pen, mended: a word that nobody knows is read as one that is a single slip away.

A slip leaves a letter out, doubles or adds one, swaps two, or hits another (Damerau 1964). Agents' own words come first, then
common English ones.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from turnwise.matching.encoder.onnx_encoder import SHIPPED, VOCABULARY_FILE

if TYPE_CHECKING:
    from spellchecker import SpellChecker

READ_CHARACTERS = 2_000
"""So much of a text is looked at; the rest stays as it is."""

_SHORTEST = 4  # too many words are one slip away from shorter ones
_COMMON, _SHORTEST_COMMON = 2_000, 5
_REMEMBERED = 8_192
_FEW_STRANGE, _MANY_STRANGE = 3, 20

# A whole word of plain letters: no part of an address, a code or a compound.
_WORD = re.compile(r"(?<![\w@.\-/'’])[A-Za-z]{4,30}(?![\w@\-/'’]|\.\w)")
_OWN_WORD = re.compile(r"[a-z]{3,}")
_SENTENCE_BEGINS = re.compile(r"(?:^|[.!?:;]|\n)\W*\Z")
_CONTRACTED = re.compile(
    r"(?:are|ca|could|did|does|do|had|has|have|is|should|was|were|wo|would)nt|(?:here|how|let|that|there|what|where|who)s"
    r"|(?:they|you)(?:re|ve)|gonna|gotta|wanna|gimme|lemme"
)


class Slip(NamedTuple):
    """A word as it stood there, and the one it is read as, in lower case."""

    typed: str
    meant: str


class Mended(NamedTuple):
    """A text to read by, and what is different in it; without slips it is the text that was given."""

    text: str
    slips: tuple[Slip, ...] = ()


class Spelling:
    """Which words agents use, and how often. Safe to share between threads; the same texts mend the same."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._own = Counter(word for text in texts for word in _OWN_WORD.findall(text.lower()))
        self._english, self._pieces = _english(), _pieces()
        self._counts: Mapping[str, int] = self._english.word_frequency.dictionary
        self._meant = lru_cache(_REMEMBERED)(self._word_meant)

    def mended(self, text: str) -> Mended:
        """The text with its slips mended.

        Names stay: words with a capital inside of a sentence, and abbreviations. A text most of whose words are strange, or
        more than twenty, stays as it is: it is written in another language, or in none.
        """
        found = list(_WORD.finditer(_beginning(text)))
        strange = [each for each in found if not self._is_known(each.group().lower())]
        if not strange or len(strange) > min(max(_FEW_STRANGE, len(found) // 2), _MANY_STRANGE):
            return Mended(text)
        shouted = text.isupper()
        slips, parts, end = [], [], 0
        for each in strange:
            typed = each.group()
            meant = self._meant(typed.lower()) if shouted or _may_be_slip(typed, text, each.start()) else None
            if meant is not None:
                slips.append(Slip(typed, meant))
                parts += [text[end : each.start()], meant]
                end = each.end()
        return Mended("".join([*parts, text[end:]]), tuple(slips)) if slips else Mended(text)

    def _is_known(self, word: str) -> bool:
        return word in self._own or word in self._pieces or word in self._counts or _CONTRACTED.fullmatch(word) is not None

    def _word_meant(self, word: str) -> str | None:
        """The word that is one slip away; None when there is none."""
        near = {other for other in self._english.edit_distance_1(word) if len(other) >= _SHORTEST}
        own = [other for other in near if other in self._own]
        if own:
            return max(own, key=lambda other: (sorted(other) == sorted(word), self._own[other], other))
        if len(word) < _SHORTEST_COMMON:
            return None
        common = [other for other in near if other[0] == word[0] and self._counts.get(other, 0) >= _COMMON]
        return max(common, key=lambda other: (self._counts[other], other), default=None)


def _beginning(text: str) -> str:
    """So much of it as is read, without a word that would be cut."""
    return text if len(text) <= READ_CHARACTERS else text[:READ_CHARACTERS].rpartition(" ")[0]


def _may_be_slip(word: str, text: str, at: int) -> bool:
    """Whether it is written as words are that are no names: small, or with a capital where a sentence begins."""
    return word.islower() or (word[1:].islower() and _SENTENCE_BEGINS.search(text, max(at - 3, 0), at) is not None)


@cache
def _pieces() -> frozenset[str]:
    """The whole words of the encoder that is shipped: names and spellings that a dictionary may lack."""
    return frozenset((SHIPPED / VOCABULARY_FILE).read_text("utf-8").split("\n"))


@cache
def _english() -> "SpellChecker":
    """A dictionary of English with how often words come."""
    from spellchecker import SpellChecker

    return SpellChecker(language="en", distance=1)
