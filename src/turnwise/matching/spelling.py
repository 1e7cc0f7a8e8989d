"""Spelling correction: an unknown word is replaced by a known one at edit distance 1.

An edit deletes, inserts, transposes or replaces one letter (Damerau 1964). The first letter may only be transposed: it is
seldom wrong, and changes the meaning ("unlock", "relock"). Words from agents' cards come first, then very common English
words, since a rarer word is as likely to be a name. A very rare English word ("oder") is a slip, too, if a far commoner word of
agents is that near ("order").
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from turnwise.matching.encoder.onnx_encoder import SHIPPED, VOCABULARY_FILE
from turnwise.matching.sentences import ends_sentence

if TYPE_CHECKING:
    from spellchecker import SpellChecker

READ_CHARACTERS = 2_000
"""Maximum number of characters that are corrected; the rest stays unchanged."""

_SHORTEST = 4  # too many words are one slip away from shorter ones
_COMMON, _SHORTEST_COMMON = 50_000, 5  # minimum frequency in the dictionary's texts: about 1,700 words
_RARE, _COMMONER = 200, 500
"""An English word below this frequency may be a slip, if an agent's word is near and this many times as frequent. In 30,000
well-typed words, no word met both conditions."""
_CACHE_SIZE = 8_192
_FEW_UNKNOWN, _MANY_UNKNOWN = 3, 20
_LOOK_BACK = 8

# A whole word of ASCII letters that is not part of an address, a code or a compound.
_WORD = re.compile(r"(?<![\w@.\-/'’\\`$#=<>&?:])[A-Za-z]{4,30}(?![\w@\-/'’\\`$#=<>&(]|[.:]\w)")
_OWN_WORD = re.compile(r"[^\W\d_]{3,}")
_SENTENCE_BEGINS = re.compile(r"(?:^|[.!?:;]|\n)\W*\Z")
_CONTRACTED = re.compile(
    r"(?:are|ca|could|did|dos|does|do|had|has|have|hav|is|might|must|need|should|was|were|wo|would)nt"
    r"|(?:here|how|let|that|there|what|when|where|who|why)s|(?:he|how|it|she|that|there|they|we|who|you)(?:d|ll|re|ve)"
    r"|gonna|gotta|wanna|gimme|lemme"
)

# Recent words that the dictionary lacks; it is built from film subtitles.
_NEWER = re.compile(
    r"autopay|backends?|chatbots?|checkins?|crypto|esims?|fintech|frontends?|geofenc\w+|gmail|hashtags?|iban|kubernetes|logouts?"
    r"|oauth|paywalls?|ransomware|rebook\w+|saas|signins?|signups?|smartwatch\w*|stablecoins?|telehealth|unsend|venmo|webhooks?"
    r"|webinars?|whatsapp|wifi"
)


class Correction(NamedTuple):
    """A corrected word."""

    typed: str
    """The word as typed."""
    meant: str
    """The corrected word, in lower case."""


class CorrectedText(NamedTuple):
    """A text after correction. Without corrections, the text is unchanged."""

    text: str
    corrections: tuple[Correction, ...] = ()


class SpellingCorrector:
    """Corrects texts with the words of agents' cards and an English dictionary.

    Safe to share between threads. Deterministic for the same texts.

    Args:
        texts: The texts of agents' cards.
        english: Whether messages are in English only. Else a rare English word may be a word of another language.
    """

    def __init__(self, texts: Iterable[str], *, english: bool = True) -> None:
        self._is_english = english
        self._set_words(_word_counts(texts))

    def changed(self, removed: Iterable[str], added: Iterable[str]) -> "SpellingCorrector":
        """Returns the corrector of these texts without the removed ones and with the added ones."""
        words = Counter(self._agent_words)
        words.update(_word_counts(added))
        words.subtract(gone := _word_counts(removed))
        for word in gone:
            if words[word] <= 0:
                del words[word]
        other = SpellingCorrector((), english=self._is_english)
        other._set_words(words)
        return other

    def _set_words(self, words: Counter[str]) -> None:
        self._agent_words = words
        self._english, self._encoder_words = _english(), _encoder_words()
        self._counts: Mapping[str, int] = self._english.word_frequency.dictionary
        # Without a reference to this object, so that it is freed as soon as nobody uses it.
        self._correction = lru_cache(_CACHE_SIZE)(partial(_find_correction, words, self._english))

    def corrected(self, text: str) -> CorrectedText:
        """Returns the text with its spelling corrected.

        Names stay: words with a capital inside a sentence, and abbreviations. If most words are unknown, the text may be in
        another language. Then only agents' words are used as corrections, and nothing is corrected above three unknown words.
        Nothing is ever corrected above twenty unknown words.
        """
        found = list(_WORD.finditer(_beginning(text)))
        unknown = [match for match in found if not self._is_known(match.group().lower())]
        mostly_unknown = len(unknown) > max(1, len(found) // 2)
        if not unknown or len(unknown) > _MANY_UNKNOWN or (mostly_unknown and len(unknown) > _FEW_UNKNOWN):
            return CorrectedText(text)
        all_caps = text.isupper()
        corrections, parts, end = [], [], 0
        for match in unknown:
            typed = match.group()
            may_be_typo = all_caps or _may_be_typo(typed, text, match.start())
            meant = self._correction(typed.lower(), mostly_unknown) if may_be_typo else None
            if meant is not None:
                corrections.append(Correction(typed, meant))
                parts += [text[end : match.start()], meant]
                end = match.end()
        return CorrectedText("".join([*parts, text[end:]]), tuple(corrections)) if corrections else CorrectedText(text)

    def _is_known(self, word: str) -> bool:
        if word in self._agent_words:
            return True
        if self._is_english and 0 < self._counts.get(word, 0) < _RARE:
            return self._correction(word, True) is None
        if word in self._encoder_words or word in self._counts:
            return True
        return _CONTRACTED.fullmatch(word) is not None or _NEWER.fullmatch(word) is not None


def _find_correction(agent_words: Counter[str], english: "SpellChecker", word: str, agent_words_only: bool) -> str | None:
    """Returns the best word at edit distance 1; None when there is none."""
    swapped = word[1::-1] + word[2:]
    near = [
        other
        for other in english.edit_distance_1(word)
        if len(other) >= _SHORTEST and other.isalpha() and (other[0] == word[0] or other == swapped)
    ]
    counts: Mapping[str, int] = english.word_frequency.dictionary
    own_count = counts.get(word, 0)  # above 0 for a rare English word only
    known = [other for other in near if other in agent_words and counts.get(other, 0) >= _COMMONER * own_count]
    if known:
        return max(known, key=lambda other: (sorted(other) == sorted(word), agent_words[other], other))
    if agent_words_only or own_count or len(word) < _SHORTEST_COMMON:
        return None
    common = [other for other in near if counts.get(other, 0) >= _COMMON]
    return max(common, key=lambda other: (counts[other], other), default=None)


def _word_counts(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in _OWN_WORD.findall(text.lower()))


def _beginning(text: str) -> str:
    """Returns the part that is read, without a word cut at its end."""
    return text if len(text) <= READ_CHARACTERS else next(iter(text[:READ_CHARACTERS].rsplit(maxsplit=1)), "")


def _may_be_typo(word: str, text: str, at: int) -> bool:
    """Returns whether the word is not written as a name: in lower case, or capitalized at the start of a sentence."""
    return word.islower() or (word[1:].islower() and _begins_sentence(text, at))


def _begins_sentence(text: str, at: int) -> bool:
    start = max(at - _LOOK_BACK, 0)
    found = _SENTENCE_BEGINS.search(text[start:at])
    return found is not None and (found[0][:1] != "." or ends_sentence(text, start + found.start() + 1))


def dictionary() -> str:
    """Returns the dictionary's name and version. Corrections may change with either."""
    return f"pyspellchecker {version('pyspellchecker')}"


@cache
def _encoder_words() -> frozenset[str]:
    """Returns the bundled encoder's vocabulary: it has names and spellings that the dictionary lacks."""
    return frozenset((SHIPPED / VOCABULARY_FILE).read_text("utf-8").split("\n"))


@cache
def _english() -> "SpellChecker":
    """Returns the English dictionary with word frequencies."""
    from spellchecker import SpellChecker

    return SpellChecker(language="en", distance=1)
