"""Fits the belief by maximum likelihood of the right agents: the weight of each text, and the probability of a topic change."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from contextual_dialogues import Dialogue, Step
from contextual_rollout import Ears
from numpy.typing import NDArray

from turnwise.matching.heads import minimize
from turnwise.selection.contextual.belief import CUES, FLOOR, TrackingWeights, switch_features
from turnwise.selection.contextual.situation import joined_text
from turnwise.selection.contextual.wording import read_message, read_reply
from turnwise.selection.meaning import TextReading

WIDTH = 24
"""How many agents of a dialogue are used: those that are right somewhere in it, and those that its texts score highest."""
STEPS, PENALTY, NUDGE = 60, 2e-4, 1e-3
_START = (0.0, -1.2, -1.0, -3.0)  # logarithms of the three weights, and the constant cue
Floats = NDArray[np.float32]


class Track(NamedTuple):
    """A dialogue's messages as arrays: messages × agents, joined (0 without a reply), cues, and the right agent's index (-1 =
    not counted).
    """

    messages: Floats
    joined: Floats
    cues: Floats
    right: NDArray[np.int64]


def track(dialogue: Dialogue, ears: Ears) -> Track | None:
    """Builds the arrays of a dialogue; None if no agent is right in it."""
    steps = [step for step in dialogue.steps if not read_message(step.user).unreadable]
    heard = [ears.read_message(step.user) for step in steps]
    both = [ears.read(joined_text(step.system, step.user)) if step.system else None for step in steps]
    shares = np.stack([reading.match.probabilities for reading in heard]) if heard else np.zeros((0, 0))
    right = [ears.labels.index(step.label) if step.label in ears.labels else -1 for step in steps]
    if not shares.size or max(right) < 0:
        return None
    none = np.ones(len(ears.labels))
    with_reply = np.stack([reading.match.probabilities if reading else none for reading in both])
    best = np.maximum(shares, np.where(with_reply < 1.0, with_reply, 0.0)).max(axis=0)
    best[[place for place in right if place >= 0]] = 2.0
    kept = np.argsort(-best, kind="stable")[:WIDTH]
    places = {int(label): place for place, label in enumerate(kept)}
    seen = [_cues(reading, step) for reading, step in zip(heard, steps, strict=True)]
    return Track(
        np.log(np.maximum(shares[:, kept], FLOOR)).astype(np.float32),
        np.log(np.maximum(with_reply[:, kept], FLOOR)).astype(np.float32),
        np.array(seen, np.float32),
        np.array([places.get(place, -1) for place in right]),
    )


def _cues(reading: TextReading, step: Step) -> list[float]:
    found = switch_features(
        read_message(reading.corrected.text),
        read_reply(step.system),
        smalltalk=reading.smalltalk,
        best=float(reading.match.probabilities.max(initial=0.0)),
        near=float(reading.match.similarities.max(initial=0.0)),
    )
    return list(found.values())


def fit_tracking(tracks: Sequence[Track], told: Callable[[int, float], None] | None = None) -> TrackingWeights:
    """The parameters that maximize the belief in the right agents. told: called with each step and the loss."""
    table = _Table(tracks)
    steps = 0

    def objective(point: Floats) -> tuple[float, Floats]:
        nonlocal steps
        at = point.astype(np.float64)
        value = table.loss(at)
        slope = np.zeros_like(at)
        for place in range(len(at)):
            moved = at.copy()
            moved[place] += NUDGE
            slope[place] = (table.loss(moved) - value) / NUDGE
        steps += 1
        if told:
            told(min(steps, STEPS), value)
        return value, slope.astype(np.float32)

    start = np.zeros(3 + len(CUES), np.float32)
    start[:4] = _START
    found = minimize(objective, start, steps=STEPS, tolerance=1e-3).astype(np.float64)
    first, message, joined = np.exp(found[:3]).tolist()
    return TrackingWeights(first, message, joined, dict(zip(CUES, found[3:].tolist(), strict=True)))


class _Table:
    """All dialogues, padded to one shape, so that one pass over the turns updates all of them."""

    def __init__(self, tracks: Sequence[Track]) -> None:
        turns, count = max(len(each.right) for each in tracks), len(tracks)
        self.messages = np.zeros((turns, count, WIDTH))
        self.joined = np.zeros((turns, count, WIDTH))
        self.cues = np.zeros((turns, count, len(CUES)))
        self.right = np.full((turns, count), -1)
        self.there = np.zeros((count, WIDTH))
        for place, each in enumerate(tracks):
            length, width = each.messages.shape
            self.messages[:length, place, :width] = each.messages
            self.joined[:length, place, :width] = each.joined
            self.cues[:length, place] = each.cues
            self.right[:length, place] = each.right
            self.there[place, :width] = 1.0
        self.counted = int((self.right >= 0).sum())

    def loss(self, at: NDArray[np.float64]) -> float:
        """The mean log loss of the belief after each message; `at` is laid out as in `fit_tracking`."""
        first, message, joined = np.exp(at[:3])
        missing = -60.0 * (1.0 - self.there)
        uniform = self.there / self.there.sum(axis=1, keepdims=True)
        total, belief = 0.0, np.zeros_like(missing)
        rows = np.arange(len(self.there))
        for turn in range(len(self.messages)):
            if turn == 0:
                logs = first * self.messages[0] + missing
            else:
                begins = 1.0 / (1.0 + np.exp(-np.clip(self.cues[turn] @ at[3:], -30.0, 30.0)))[:, None]
                prior = (1.0 - begins) * belief + begins * uniform
                logs = np.log(np.maximum(prior, 1e-12)) + message * self.messages[turn] + joined * self.joined[turn] + missing
            belief = np.exp(logs - logs.max(axis=1, keepdims=True))
            belief /= belief.sum(axis=1, keepdims=True)
            counts = self.right[turn] >= 0
            total -= float(np.log(np.maximum(belief[rows[counts], self.right[turn][counts]], FLOOR)).sum())
        return total / self.counted + PENALTY * float((at[4:] ** 2).sum())
