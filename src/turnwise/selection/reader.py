"""A matcher in use: it reads texts, and remembers those read lately."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnwise.matching.match import Match
from turnwise.matching.normalize import composed, legible
from turnwise.matching.text_features import text_features
from turnwise.ports.encoder import Encoder
from turnwise.selection.vectors import encoded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.matcher import Matcher
    from turnwise.matching.smalltalk import SmallTalk
    from turnwise.matching.spelling import CorrectedText, SpellingCorrector
from contextlib import contextmanager
from contextvars import ContextVar

REMEMBERED = 10_000
READ_CHARACTERS = 20_000
"""So much of a text is looked at."""

_REMEMBERED_NUMBERS = 6_000_000  # a reading holds two numbers of eight bytes for each label
_REMEMBERED_CHARACTERS = 2_000
_AT_ONCE = 256


class TextReading(NamedTuple):
    """A text as it was understood. smalltalk: how likely it is conversation rather than a request, 0 to 1. mended: the text
    that was read, without the slips of the one that was given.
    """

    text: str
    vector: "NDArray[np.float32]"
    match: Match
    smalltalk: float
    mended: "CorrectedText"


def with_parts(whole: TextReading, parts: Sequence[TextReading]) -> TextReading:
    """The reading of a text that was read part by part, too: its match is what all say together, slips are those of all.

    Greetings and thanks do not count as long as there is more: some agent's examples greet, too.
    """
    if not parts:
        return whole
    slips = tuple(dict.fromkeys(slip for each in (whole, *parts) for slip in each.mended.slips))
    asking = [part for part in parts if not _greets(part.mended.text)] or parts
    match = whole.match.with_parts([part.match for part in asking])
    return whole._replace(match=match, mended=whole.mended._replace(slips=slips))


def _greets(text: str) -> bool:
    found = text_features(text)
    return found.content == 0 and (found.opens_greeting or found.thanks or found.closing)


class TextReader:
    """One state of a Meaning, never changed: what it has read before can be remembered as long as it lives.

    matcher: None when no agent has anything to go by; then nobody fits any text. Safe to share between threads.
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
            min(REMEMBERED, max(_REMEMBERED_NUMBERS // max(len(matcher.labels), 1), 100)) if matcher else REMEMBERED
        )
        self._lock = threading.Lock()
        self._readings: OrderedDict[str, TextReading] = OrderedDict()

    def by(self, matcher: "Matcher | None", fingerprint: str) -> "TextReader":
        """The same with another matcher."""
        return TextReader(self._encoder, matcher, self.smalltalk, self.spelling, fingerprint)

    def remembered(self, texts: Sequence[str]) -> dict[str, TextReading]:
        """Those of the texts that were read lately."""
        found = {}
        with self._lock:
            for text in texts:
                if (reading := self._readings.get(text)) is not None:
                    self._readings.move_to_end(text)
                    found[text] = reading
        return found

    def read(self, texts: Sequence[str], *, together: bool = False) -> list[TextReading]:
        """One reading a text, in their order. EncoderError when there are no vectors for them.

        together: they are matched in one go. That is faster, and numbers may differ in the last digit.
        """
        readings: list[TextReading] = []
        for start in range(0, len(texts), _AT_ONCE):
            readings += self._read(texts[start : start + _AT_ONCE], together)
        with self._lock:
            for reading in readings:
                if len(reading.text) <= _REMEMBERED_CHARACTERS:
                    self._readings[reading.text] = reading
            while len(self._readings) > self._capacity:
                self._readings.popitem(last=False)
        return readings

    def mended(self, text: str) -> "CorrectedText":
        """The text as it is read: of a long one the beginning, in one form, without slips."""
        return self.spelling.mended(composed(text[:READ_CHARACTERS]))

    def _read(self, texts: Sequence[str], together: bool) -> Iterator[TextReading]:
        mended = [self.mended(text) for text in texts]
        plain = [legible(each.text) for each in mended]
        vectors = encoded(plain, self._encoder)
        size = len(texts) if together else 1
        for start in range(0, len(texts), size):
            some = slice(start, start + size)
            chatting = self.smalltalk.probabilities(vectors[some], plain[some])
            matches = self._matched(plain[some], vectors[some])
            yield from map(TextReading, texts[some], vectors[some], matches, chatting.tolist(), mended[some])

    def _matched(self, texts: Sequence[str], vectors: "NDArray[np.float32]") -> Sequence[Match]:
        if self.matcher is None:
            return [empty_match()] * len(texts)
        if len(texts) == 1:
            return [self.matcher.match(texts[0], vectors[0])]
        return self.matcher.match_many(texts, vectors)


def empty_match() -> Match:
    """The match where there are no labels at all."""
    import numpy as np

    return Match((), np.empty(0), np.empty(0), 1.0, ())


class Snapshot:
    """What one decision reads by. served: None until something is read, when nothing was ready as it began."""

    def __init__(self, owner: object, served: TextReader | None) -> None:
        self.owner, self.served = owner, served
        self.is_over = False

    @property
    def fingerprint(self) -> str:
        """Identifies the state; empty when nothing was ready and nothing was read."""
        return self.served.fingerprint if self.served else ""


# Selectors are asked with a request that is plain data, and may be anybody's: the state goes to their reader past them.
_HOLD: ContextVar[Snapshot | None] = ContextVar("turnwise_hold", default=None)


@contextmanager
def snapshot(owner: object, served: TextReader | None) -> Iterator[Snapshot]:
    """Inside, in this task and those it starts, `hold_of(owner)` is this hold; inside another hold of the owner, that one."""
    outer = snapshot_of(owner)
    if outer is not None:
        yield outer
        return
    hold = Snapshot(owner, served)
    token = _HOLD.set(hold)
    try:
        yield hold
    finally:
        hold.is_over = True  # a task that outlives the decision should not read by its state for ever
        _HOLD.reset(token)


def snapshot_of(owner: object) -> Snapshot | None:
    """The hold of the decision that is being made here, if it is one of that owner; else None."""
    hold = _HOLD.get()
    return hold if hold is not None and hold.owner is owner and not hold.is_over else None
