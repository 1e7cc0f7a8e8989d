"""Blocks topics that are given by examples."""

import asyncio
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from turnwise.facts.content import Content, TextPart, text_in
from turnwise.facts.errors import ConfigError, EncoderError
from turnwise.guardrails.replacing import checked_places
from turnwise.matching.language import language_of
from turnwise.ports.encoder import Encoder
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.matcher import Matcher

THRESHOLD = 0.6
_BANNED, _ALLOWED = "banned", "allowed"
_LEAST_CHARACTERS, _MOST_CHARACTERS = 20, 200
_BATCH = 64
_ENDS = ".!?\n。！？"


class BannedTopics:
    """Blocks a message or an answer with a passage that is close to a banned example and closer to it than to any allowed one.

    An answer is buffered whole before it is sent. Checks raise EncoderError.

    Args:
        banned: Example sentences as people write them; ten or more per topic.
        allowed: Example sentences of neighbouring topics that are fine.
        threshold: Lowest cosine similarity with a banned example.
        encoder: None = the bundled one, loaded at the first check.
        places: Where to check.
        reason: The reason that the user sees, also by the language of the checked text: `{"other": …, "de": …}`.
        name: The guardrail's name in results.

    Raises:
        ConfigError: There is no banned example, or the threshold is not a cosine.
    """

    def __init__(
        self,
        banned: Sequence[str],
        allowed: Sequence[str] = (),
        *,
        threshold: float = THRESHOLD,
        encoder: Encoder | None = None,
        places: Collection[Place] = ("message", "answer"),
        reason: str | Mapping[str, str] = "We do not talk about that here.",
        name: str = "banned-topics",
    ) -> None:
        if isinstance(banned, str) or not banned:
            raise ConfigError(f"The guardrail {name!r} has no list of banned examples.", fix="Give some sentences.")
        if not -1.0 <= threshold <= 1.0:
            raise ConfigError(f"The guardrail {name!r} has the threshold {threshold}.", fix="Give a number from -1 to 1.")
        self.name, self.reach = name, 0 if "answer" not in checked_places(name, places) else None
        self._examples = [(_BANNED, text) for text in banned] + [(_ALLOWED, text) for text in allowed]
        self._threshold, self._encoder, self._places, self._reason = threshold, encoder, frozenset(places), reason
        self._matcher: Matcher | None = None
        self._lock = threading.Lock()

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Checks the texts of the content, sentence by sentence."""
        if place not in self._places:
            return ALLOW
        texts = [passage for part in content.parts if isinstance(part, TextPart) for passage in passages(part.text)]
        for start in range(0, len(texts), _BATCH):
            if await asyncio.to_thread(self._is_banned, texts[start : start + _BATCH]):
                return GuardrailVerdict("block", reason=text_in(self._reason, language_of(content.text)))
        return ALLOW

    def _is_banned(self, texts: Sequence[str]) -> bool:
        """Returns whether a text is near the banned examples and not nearer to the allowed ones."""
        matcher, encoder = self._ready()
        for match in matcher.match_many(texts, _vectors(encoder, texts)):
            near = dict(zip(match.labels, match.similarities.tolist(), strict=True))
            if near[_BANNED] >= max(self._threshold, near.get(_ALLOWED, -1.0)):
                return True
        return False

    def _ready(self) -> "tuple[Matcher, Encoder]":
        """Returns the matcher of the examples and its encoder, made at first use."""
        from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
        from turnwise.matching.match import Phrase
        from turnwise.matching.matcher import nearest

        with self._lock:
            self._encoder = self._encoder or OnnxEncoder()
            if self._matcher is None:
                texts = [text for _, text in self._examples]
                phrases = [Phrase(label, text) for label, text in self._examples]
                self._matcher = nearest(phrases, _vectors(self._encoder, texts))
            return self._matcher, self._encoder


def passages(text: str) -> Iterator[str]:
    """Splits a text into sentences. Short ones join the next one; long ones are split every 200 characters."""
    begin = 0
    for at, char in enumerate(text, 1):
        length = at - begin
        if (char in _ENDS and length >= _LEAST_CHARACTERS) or length == _MOST_CHARACTERS:
            yield text[begin:at]
            begin = at
    if text[begin:].strip():
        yield text[begin:]


def _vectors(encoder: Encoder, texts: Sequence[str]) -> "NDArray[np.float32]":
    """Returns the texts' vectors. Raises EncoderError if the encoder gives anything else."""
    import numpy as np

    rows = np.asarray(encoder.encode(texts), np.float32)
    if rows.shape != (len(texts), encoder.dimensions) or not np.isfinite(rows).all():
        raise EncoderError(f"The encoder {encoder.fingerprint!r} gave something else than a row of numbers for each text.")
    return rows
