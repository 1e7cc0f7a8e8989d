"""Recognises the language of a text.

A text is recognised only with enough letters and a clear margin. A short text, a name, an address or a code has no language.
The detector (`py3langid`) takes about a second to load, and 70 MB. It is loaded by `load_detector`, or by the first text
without common English words.
"""

import re
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from turnwise.matching.text_features import text_features

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
READ_CHARACTERS = 1_000
"""Maximum number of characters that are read."""
NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali",
    "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "kn": "Kannada", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam",
    "mr": "Marathi", "ms": "Malay", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovene", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish",
    "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""The recognised languages, by ISO 639-1 code. Dialects and languages with few texts are left out: they draw slang."""

_FEWEST_LETTERS, _FEWEST_WORDS, _FEWEST_SMALL_WORDS = 12, 3, 2
_FEWEST_OTHER_LETTERS = 4  # another script says by itself that a text is not English
_CLEAR, _CLEAR_TOGETHER = 0.6, 0.75
_ENGLISH_AT_MOST = 0.02
_ENGLISH_SHARE = 8  # English, if at least one word in so many is
_CACHE_SIZE = 4_096  # with room for the agents' texts, which are read after each change
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Common words that are English only. "is", "in", "was", "for", "have", "at", "by" and "of" are words of other languages too.
_COMMON = _words(
    "the and my you your yours what how where when why which with this that these those there they from about please thanks"
    " thank would could should does did doesn't didn't don't can't i'm i've i'd i'll it's what's where's need get want give"
    " make know like our their them because before after between been being has were who not yes one two three people person"
)


def language_of(text: str) -> str | None:
    """Returns the text's language as an ISO 639-1 code; None when it is not clear.

    Deterministic for a version of the detector. A text with common English words is English, also when it quotes others.
    """
    return _language_of(text[:READ_CHARACTERS])


@lru_cache(_CACHE_SIZE)
def _language_of(read: str) -> str | None:
    """Returns the language of a text; None when it is too short or unclear."""
    words = _WORD.findall(read.replace("’", "'").casefold())
    english = sum(word in _COMMON for word in words)
    if english and english * _ENGLISH_SHARE >= len(words):
        return ENGLISH
    found = text_features(read)
    letters = sum(map(len, words))
    is_other_script = found.other_script > 0.5 and letters * found.other_script >= _FEWEST_OTHER_LETTERS
    is_long = len(words) >= _FEWEST_WORDS and letters >= _FEWEST_LETTERS and not _is_names(read)
    if found.code_like or not (is_other_script or is_long):
        return None
    (best, share), (_, second) = (ranking := _detector().rank(" ".join(words)))[:2]
    if best == ENGLISH:
        return ENGLISH if share >= _CLEAR else None
    if dict(ranking)[ENGLISH] > _ENGLISH_AT_MOST:
        return None
    return best if is_other_script or share >= _CLEAR or share + second >= _CLEAR_TOGETHER else None


def load_detector() -> None:
    """Loads the detector, so that no message waits for it."""
    _detector()


def detector() -> str:
    """Returns the detector's name and version. The language of a text may change with either."""
    return f"py3langid {version('py3langid')}"


def language_name(code: str) -> str:
    """Returns the language's English name; the code when it has none here."""
    return NAMES.get(code, code)


def _is_names(text: str) -> bool:
    """Returns whether nearly every word has a capital, as in names and addresses."""
    return not text.isupper() and sum(word[0].islower() for word in _WORD.findall(text)) < _FEWEST_SMALL_WORDS


@cache
def _detector() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages(list(NAMES))
    return detector
