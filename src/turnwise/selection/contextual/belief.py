"""Whose matter it is, believed from all that was said lately, whoever answered it. Pure.

A forward filter (the first half of Rabiner's forward-backward procedure, 1989): the matter goes on, or another begins, as
likely as the message's wording says; then each text speaks for somebody. Who was chosen does not count, so that a wrong
choice is not believed because it was made; but for what was said before the oldest message here, of which nothing else is
known.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.selection.contextual.wording import MessageWording, ReplyWording, read_message

Floats = NDArray[np.float64]

FLOOR = 1e-4
"""No probability counts as smaller: what is far below the best is not told apart."""
_STEEPEST = 30.0
_CARRIED = 0.5


class TrackingWeights(NamedTuple):
    """Trained numbers. first, message, joined: how much the log-probabilities count of the first message, of a later one, and
    of one joined with the reply before it. begins: the weight of each cue that another matter begins."""

    first: float
    message: float
    joined: float
    begins: Mapping[str, float]


class MessageEvidence(NamedTuple):
    """One message, as log-probabilities over the candidates: alone, and joined with the reply before it (None: there was
    none). cues: what its wording says of another matter beginning. answered: the place of who answered it, None = unknown."""

    message: Floats
    joined: Floats | None
    cues: Mapping[str, float]
    answered: int | None = None


def switch_features(
    words: MessageWording, said: ReplyWording, *, smalltalk: float, best: float, near: float
) -> dict[str, float]:
    """What tells, besides the agents' shares, whether a message begins another matter.

    said: how the reply before it ended. smalltalk: how likely the message is conversation. best, near: the highest share and
    cosine that anybody has who may be chosen.
    """
    seen = words.clues
    return {
        "one": 1.0,
        "asks": float(seen.asks or seen.imperative or seen.question_word),
        "content": min(math.log1p(seen.content), 3.0),
        "brief": float(seen.rest <= 3),
        "asked": float(said.question and not said.offers),
        "closed": float(said.offers or said.done),
        "also": float(seen.also or seen.instead or seen.what_about),
        "refers": float(seen.refers_back),
        "resumes": float(words.resumes or seen.back_to),
        "calls": float(words.calls),
        "answers": float(seen.opens_yes or seen.opens_no or seen.opens_ok),
        "thanks": float(seen.thanks),
        "question": float(seen.question_mark),
        "smalltalk": math.log(max(smalltalk, 0.002)),
        "best": math.log(max(best, FLOOR)),
        "near": near,
    }


CUES = tuple(switch_features(read_message(""), ReplyWording(), smalltalk=0.0, best=0.0, near=0.0))
"""The cues' names in their order."""
UNTRAINED = TrackingWeights(0.0, 0.0, 0.0, dict.fromkeys(CUES, 0.0))
"""Believes nothing, whatever is said."""


def update_belief(heard: Sequence[MessageEvidence], tracking: TrackingWeights) -> tuple[Floats, Floats]:
    """The belief before the last message and after it, as logarithms of shares of sum 1. heard: oldest first, at least one."""
    oldest, count = heard[0], len(heard[0].message)
    if not count:
        return np.zeros(0), np.zeros(0)
    prior = np.full(count, -math.log(count))
    if oldest.joined is None:
        belief = _shares(prior + tracking.first * oldest.message)
    else:
        # What was said before is out of sight; who answered knew it.
        if oldest.answered is not None and len(heard) > 1:
            shares = np.full(count, (1.0 - _CARRIED) / count)
            shares[oldest.answered] += _CARRIED
            prior = np.log(shares)
        belief = _shares(prior + _evidence(oldest, tracking))
    for each in heard[1:]:
        begins = _begins(each.cues, tracking.begins)
        prior = np.log((1.0 - begins) * np.exp(belief) + begins / count)
        belief = _shares(prior + _evidence(each, tracking))
    return prior, belief


def _evidence(heard: MessageEvidence, tracking: TrackingWeights) -> Floats:
    found = tracking.message * heard.message
    return found if heard.joined is None else found + tracking.joined * heard.joined


def _begins(found: Mapping[str, float], weights: Mapping[str, float]) -> float:
    pull = sum(weights[name] * value for name, value in found.items())
    return 1.0 / (1.0 + math.exp(-min(max(pull, -_STEEPEST), _STEEPEST)))


def _shares(logs: Floats) -> Floats:
    shares = np.exp(logs - float(logs.max()))
    shares = np.maximum(shares / float(shares.sum()), FLOOR)
    found: Floats = np.log(shares / float(shares.sum()))
    return found
