"""Estimates which agent the current topic belongs to, from all recent messages. Pure.

A forward filter (the first half of the forward-backward algorithm, Rabiner 1989). At each message the topic continues, or
a new one begins, with a probability that depends on the wording. Each text is then evidence for some agents. Earlier
choices do not count, so a wrong choice does not reinforce itself. The one exception is the agent that answered the oldest
message in the window, because it also knew the messages before.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.selection.contextual.wording import MessageWording, ReplyWording, read_message

Floats = NDArray[np.float64]

FLOOR = 1e-4
"""Minimum probability. Candidates far below the best are not distinguished."""
_MAX_LOGIT = 30.0
_PRIOR_SHARE = 0.5


class TrackingWeights(NamedTuple):
    """Trained weights of the filter."""

    first: float
    """Weight of the log-probabilities of the conversation's first message."""
    message: float
    """Weight of those of a later message."""
    joined: float
    """Weight of those of a message joined with the reply before it."""
    begins: Mapping[str, float]
    """Weight of each cue that a new topic begins."""


class MessageEvidence(NamedTuple):
    """One message as evidence over the candidates."""

    message: Floats
    """Log-probabilities of the message alone."""
    joined: Floats | None
    """Log-probabilities of the message joined with the reply before it; None = no reply."""
    cues: Mapping[str, float]
    """Cues that a new topic begins, from `switch_features`."""
    answered: int | None = None
    """Index of the agent that answered; None = unknown."""


def update_belief(messages: Sequence[MessageEvidence], tracking: TrackingWeights) -> tuple[Floats, Floats]:
    """Returns the belief before and after the last message, as log-probabilities over the candidates.

    `messages` are in order, oldest first, at least one.
    """
    oldest, count = messages[0], len(messages[0].message)
    if not count:
        return np.zeros(0), np.zeros(0)
    prior = np.full(count, -math.log(count))
    if oldest.joined is None:
        belief = _normalize(prior + tracking.first * oldest.message)
    else:
        # Messages before the oldest one are unknown here, but the agent that answered it knew them.
        if oldest.answered is not None and len(messages) > 1:
            shares = np.full(count, (1.0 - _PRIOR_SHARE) / count)
            shares[oldest.answered] += _PRIOR_SHARE
            prior = np.log(shares)
        belief = _normalize(prior + _evidence(oldest, tracking))
    for each in messages[1:]:
        new_topic = _new_topic_probability(each.cues, tracking.begins)
        prior = np.log((1.0 - new_topic) * np.exp(belief) + new_topic / count)
        belief = _normalize(prior + _evidence(each, tracking))
    return prior, belief


def switch_features(
    words: MessageWording, said: ReplyWording, *, smalltalk: float, best: float, near: float
) -> dict[str, float]:
    """Returns the cues, other than the agents' probabilities, that a message begins a new topic.

    Args:
        words: The message's wording.
        said: The ending of the reply before it.
        smalltalk: Probability that the message is small talk.
        best: Highest probability of any eligible agent.
        near: Highest cosine similarity with any eligible agent.
    """
    seen = words.features
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
"""Names of the cues, in order."""
UNTRAINED = TrackingWeights(0.0, 0.0, 0.0, dict.fromkeys(CUES, 0.0))
"""Weights that ignore all evidence."""


def _evidence(message: MessageEvidence, tracking: TrackingWeights) -> Floats:
    found = tracking.message * message.message
    return found if message.joined is None else found + tracking.joined * message.joined


def _new_topic_probability(found: Mapping[str, float], weights: Mapping[str, float]) -> float:
    logit = sum(weights[name] * value for name, value in found.items())
    return 1.0 / (1.0 + math.exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT)))


def _normalize(logs: Floats) -> Floats:
    shares = np.exp(logs - float(logs.max()))
    shares = np.maximum(shares / float(shares.sum()), FLOOR)
    found: Floats = np.log(shares / float(shares.sum()))
    return found
