"""Reads texts with one fixed matcher, caches recent readings, and pins a reader for the length of a decision.

It also knows the languages that can be read: those of the encoder, and those of the agents' own texts.
"""

import itertools
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from turnwise.matching.language import language_name, language_of, load_detector
from turnwise.matching.match import Match
from turnwise.matching.normalize import composed, legible
from turnwise.matching.text_features import text_features
from turnwise.ports.encoder import Encoder, languages_of
from turnwise.selection.vectors import encode_checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.matcher import Matcher
    from turnwise.matching.smalltalk import SmallTalk
    from turnwise.matching.spelling import CorrectedText, SpellingCorrector


CACHED_READINGS = 10_000
"""Maximum number of cached readings."""
READ_CHARACTERS = 20_000
"""Maximum number of characters of a text that are read."""

_CACHED_NUMBERS = 1_500_000  # a reading holds two eight-byte numbers per label
_CACHED_CHARACTERS = 2_000
_BATCH = 256

_FEWEST_PHRASES = 2
"""Phrases in a language that make it one of the agents' languages. One phrase may be a quotation."""
_MAX_PHRASES = 2_000


class TextReading(NamedTuple):
    """The result of reading one text."""

    text: str
    vector: "NDArray[np.float32]"
    match: Match
    """How well the text fits each agent."""
    smalltalk: float
    """Probability, 0 to 1, that the text is conversation rather than a request."""
    corrected: "CorrectedText"
    """The text after spelling correction, which is the one that was read."""


class TextReader:
    """An immutable state of a `Meaning`, with a cache of its readings. Safe to share between threads.

    Args:
        encoder: Turns texts into vectors.
        matcher: None when no agent has phrases; then no agent fits any text.
        smalltalk: The small-talk classifier.
        spelling: The spelling corrector.
        fingerprint: Identifies this state.
    """

    def __init__(
        self,
        encoder: Encoder,
        matcher: "Matcher | None",
        smalltalk: "SmallTalk",
        spelling: "SpellingCorrector",
        fingerprint: str,
    ) -> None:
        self.matcher, self.smalltalk, self.spelling, self.fingerprint = matcher, smalltalk, spelling, fingerprint
        self._encoder = encoder
        self._capacity = (
            min(CACHED_READINGS, max(_CACHED_NUMBERS // max(len(matcher.labels), 1), 100)) if matcher else CACHED_READINGS
        )
        self._lock = threading.Lock()
        self._readings: OrderedDict[str, TextReading] = OrderedDict()

    def with_matcher(self, matcher: "Matcher | None", fingerprint: str) -> "TextReader":
        """Returns a reader with another matcher and an empty cache."""
        return TextReader(self._encoder, matcher, self.smalltalk, self.spelling, fingerprint)

    def cached(self, texts: Sequence[str]) -> dict[str, TextReading]:
        """Returns the cached readings among these texts."""
        found = {}
        with self._lock:
            for text in texts:
                if (reading := self._readings.get(text)) is not None:
                    self._readings.move_to_end(text)
                    found[text] = reading
        return found

    def read(self, texts: Sequence[str], *, batched: bool = False) -> list[TextReading]:
        """Returns one reading for each text, in order.

        Args:
            texts: The texts.
            together: Matches them in one batch. This is faster; the last digit of a number may differ.

        Raises:
            EncoderError: The texts cannot be encoded.
        """
        readings: list[TextReading] = []
        for start in range(0, len(texts), _BATCH):
            readings += self._read(texts[start : start + _BATCH], batched)
        with self._lock:
            for reading in readings:
                if len(reading.text) <= _CACHED_CHARACTERS:
                    self._readings[reading.text] = reading
            while len(self._readings) > self._capacity:
                self._readings.popitem(last=False)
        return readings

    def corrected(self, text: str) -> "CorrectedText":
        """Returns the text as it is read: truncated, in composed Unicode form, and spelling-corrected."""
        return self.spelling.corrected(composed(text[:READ_CHARACTERS]))

    def _read(self, texts: Sequence[str], batched: bool) -> Iterator[TextReading]:
        """Yields the readings of the texts; batched, or one at a time so that results do not depend on the others."""
        corrected = [self.corrected(text) for text in texts]
        readable = [legible(each.text) for each in corrected]
        vectors = encode_checked(readable, self._encoder)
        size = len(texts) if batched else 1
        for start in range(0, len(texts), size):
            batch = slice(start, start + size)
            smalltalk = self.smalltalk.probabilities(vectors[batch], readable[batch])
            matches = self._match(readable[batch], vectors[batch])
            yield from map(TextReading, texts[batch], vectors[batch], matches, smalltalk.tolist(), corrected[batch])

    def _match(self, texts: Sequence[str], vectors: "NDArray[np.float32]") -> Sequence[Match]:
        if self.matcher is None:
            return [empty_match()] * len(texts)
        if len(texts) == 1:
            return [self.matcher.match(texts[0], vectors[0])]
        return self.matcher.match_many(texts, vectors)


class Snapshot:
    """The reader pinned for one decision.

    `served` is None if nothing was ready at the start; the first read then sets it.
    """

    def __init__(self, owner: object, reader: TextReader | None) -> None:
        self.owner, self.reader = owner, reader
        self.is_over = False

    @property
    def fingerprint(self) -> str:
        """Identifies the reader's state; empty when there is no reader yet."""
        return self.reader.fingerprint if self.reader else ""


# A context variable, because requests are plain data and custom selectors need not know about the pinned state.
_SNAPSHOT: ContextVar[Snapshot | None] = ContextVar("turnwise_hold", default=None)


@contextmanager
def snapshot(owner: object, reader: TextReader | None) -> Iterator[Snapshot]:
    """Pins a reader in this task and the tasks it starts. A nested block of the same owner reuses the outer snapshot."""
    outer = current_snapshot(owner)
    if outer is not None:
        yield outer
        return
    pinned = Snapshot(owner, reader)
    token = _SNAPSHOT.set(pinned)
    try:
        yield pinned
    finally:
        pinned.is_over = True  # a task that outlives the decision must not keep using this state
        _SNAPSHOT.reset(token)


def current_snapshot(owner: object) -> Snapshot | None:
    """Returns the snapshot of the decision in progress if it belongs to `owner`, else None."""
    pinned = _SNAPSHOT.get()
    return pinned if pinned is not None and pinned.owner is owner and not pinned.is_over else None


def with_parts(whole: TextReading, parts: Sequence[TextReading]) -> TextReading:
    """Combines the reading of a text with those of its parts: their matches together, and the corrections of all.

    Parts that only greet or thank are ignored if there are others, since some agents' examples also greet.
    """
    if not parts:
        return whole
    corrections = tuple(dict.fromkeys(correction for each in (whole, *parts) for correction in each.corrected.corrections))
    asking = [part for part in parts if not _is_pleasantry(part.corrected.text)] or parts
    match = whole.match.with_parts([part.match for part in asking])
    return whole._replace(match=match, corrected=whole.corrected._replace(corrections=corrections))


def empty_match() -> Match:
    """Returns a match over no labels."""
    import numpy as np

    return Match((), np.empty(0), np.empty(0), 1.0, ())


def _is_pleasantry(text: str) -> bool:
    found = text_features(text)
    return found.content == 0 and (found.opens_greeting or found.thanks or found.closing)


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
