"""Says which languages a policy can read: those of its encoder, and those of the agents' own texts."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from turnwise.matching.language import language_name, language_of, load_detector
from turnwise.ports.encoder import Encoder, languages_of

_FEWEST_PHRASES = 2
"""Phrases in a language that make it one of the agents' languages. One phrase may be a quotation."""
_MAX_PHRASES = 2_000


class KnownLanguages:
    """The languages that messages are read in. Immutable.

    Args:
        encoder: Its languages; an encoder that names none knows all.
        phrases: Returns the agents' texts. Called once: by `prepare`, or for the first message in a language that the encoder
            does not know.
    """

    def __init__(self, encoder: Encoder, phrases: Callable[[], Iterable[str]]) -> None:
        self._of_encoder, self._phrases = languages_of(encoder), phrases

    def prepare(self) -> None:
        """Does what a message would otherwise wait for: loads the detector, and reads the agents' texts."""
        if self._of_encoder is not None:
            load_detector()
            _ = self._of_agents

    def unknown(self, text: str) -> str | None:
        """Returns the text's language if it cannot be read; None when it can, or when its language is not clear."""
        if self._of_encoder is None:
            return None
        language = language_of(text)
        return None if language is None or language in self._of_encoder or language in self._of_agents else language

    def reads(self, text: str) -> bool:
        """Returns whether the text is in one of the languages that the encoder names."""
        return self._of_encoder is not None and language_of(text) in self._of_encoder

    @cached_property
    def _of_agents(self) -> frozenset[str]:
        found = Counter(language_of(text) for text in itertools.islice(self._phrases(), _MAX_PHRASES))
        return frozenset(language for language, count in found.items() if language and count >= _FEWEST_PHRASES)


def unread(language: str) -> str:
    """Returns the clause that says why the message was not read."""
    return f"the message is in {language_name(language)}, which the encoder does not know"
