"""Fits the contextual model: the right candidate of each turn, by conditional likelihood with Adam."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES, Features
from turnwise.selection.contextual.trained_model import Coefficients

NOBODY, SMALLTALK = -1, -2
"""Targets that are not rows of candidates."""
WIDTH = 16
"""How many candidates of a turn are used: the right one, the active one, and those most similar to them."""
BATCH, RATE, DECAY = 256, 0.01, 1e-3
LIGHTER = {"claims": 0.0, "smalltalk": 0.3}
"""Parts with a weaker penalty: claims are rare among the turns; small talk starts few of them, but clearly."""
_CONTEXT = len(TURN_FEATURES) + len(CONVERSATION_FEATURES)
_CHATTING = np.isin(
    TURN_FEATURES, ("one", "smalltalk", "novelty", "best", "similar", "entropy", "named_calls", "hit", "strange", "content")
)
"""Features of small talk at the start; the matcher has already scored the words."""
_FIXED = CLAIMS.index("opening")
"""Its weight is 1: without a conversation the matcher's probabilities are unchanged."""
Arrays = dict[str, NDArray[np.float32]]


class Case(NamedTuple):
    """A turn's features, the right row (or NOBODY, SMALLTALK), and its weight."""

    features: Features
    target: int
    weight: float = 1.0


class Table:
    """Many cases as arrays of one width; missing candidates are masked."""

    def __init__(self, cases: Sequence[Case]) -> None:
        count = len(cases)
        self.claims = np.zeros((count, WIDTH, len(CLAIMS)), np.float32)
        self.mask = np.zeros((count, WIDTH), np.float32)
        self.context = np.zeros((count, _CONTEXT), np.float32)
        self.active = np.full(count, -1)
        self.target = np.zeros(count, int)
        self.weight = np.array([case.weight for case in cases], np.float32)
        for place, case in enumerate(cases):
            self._put(place, case)
        self.going = (self.active >= 0).astype(np.float32)

    def _put(self, place: int, case: Case) -> None:
        found = case.features
        order = list(range(len(found.claims)))
        for first in (found.active, case.target if case.target >= 0 else None):
            if first is not None:
                order.remove(first)
                order.insert(0, first)
        kept = order[:WIDTH]
        self.claims[place, : len(kept)] = found.claims[kept]
        self.mask[place, : len(kept)] = 1.0
        self.context[place] = np.concatenate([found.turn, found.conversation])
        self.active[place] = kept.index(found.active) if found.active is not None else -1
        self.target[place] = kept.index(case.target) if case.target >= 0 else WIDTH + (0 if case.target == NOBODY else 1)

    def __len__(self) -> int:
        return len(self.target)


class _Batch(NamedTuple):
    claims: NDArray[np.float32]
    mask: NDArray[np.float32]
    context: NDArray[np.float32]
    going: NDArray[np.float32]
    active: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float32]


def _start(hidden: int, seed: int) -> Arrays:
    chance = np.random.default_rng(seed)
    around = len(TURN_FEATURES)
    return {
        "claims": np.zeros(len(CLAIMS), np.float32),
        "stay": np.zeros(_CONTEXT, np.float32),
        "nobody": np.zeros(_CONTEXT, np.float32),
        "smalltalk": np.zeros(around, np.float32),
        "mixing": (chance.standard_normal((_CONTEXT, hidden)) * 0.3 / np.sqrt(_CONTEXT / 10)).astype(np.float32),
        "gates": np.zeros((hidden, len(CLAIMS) + 2), np.float32),
    }


def _step(at: Arrays, batch: _Batch) -> tuple[float, Arrays]:
    """The mean loss of a batch and its gradient."""
    rows = np.arange(len(batch.target))
    around = batch.context[:, : len(TURN_FEATURES)]
    hidden = np.tanh(batch.context @ at["mixing"]) * batch.going[:, None]
    gates = hidden @ at["gates"]
    heavy = at["claims"] + gates[:, : len(CLAIMS)]
    scores = np.full((len(rows), WIDTH + 1), -60.0, np.float32)
    scores[:, :WIDTH] = np.matmul(batch.claims, heavy[:, :, None])[:, :, 0] - 60.0 * (1.0 - batch.mask)
    on = batch.going > 0
    scores[rows[on], batch.active[on]] += (batch.context @ at["stay"] + gates[:, -2])[on]
    scores[on, WIDTH] = (batch.context @ at["nobody"] + gates[:, -1])[on]
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    # Without an active agent, small talk is decided first and out of scope by the matcher, so only agents compete here.
    chats = 1.0 / (1.0 + np.exp(-np.clip(around @ at["smalltalk"], -30, 30)))
    is_chat = batch.target == WIDTH + 1
    counts = (batch.target < WIDTH) | (on & (batch.target == WIDTH))
    weight = batch.weight / batch.weight.sum()
    target = np.minimum(batch.target, WIDTH)
    loss = -float((weight * counts) @ np.log(np.maximum(shares[rows, target], 1e-9)))
    loss -= float((weight * ~on) @ np.log(np.where(is_chat, chats, 1.0 - chats) + 1e-9))
    shares[rows, target] -= 1.0
    shares *= (weight * counts)[:, None]
    by_claim = np.matmul(shares[:, None, :WIDTH], batch.claims)[:, 0]
    stay = np.where(on, shares[rows, np.maximum(batch.active, 0)], 0.0)
    nobody = shares[:, WIDTH] * on
    by_gate = np.concatenate([by_claim, stay[:, None], nobody[:, None]], axis=1) * batch.going[:, None]
    back = (by_gate @ at["gates"].T) * (1.0 - hidden**2) * batch.going[:, None]
    by_weight = by_claim.sum(axis=0)
    by_weight[_FIXED] = 0.0
    return loss, {
        "claims": by_weight,
        "stay": stay @ batch.context,
        "nobody": nobody @ batch.context,
        "smalltalk": (((chats - is_chat) * weight * ~on) @ around) * _CHATTING,
        "mixing": batch.context.T @ back,
        "gates": hidden.T @ by_gate,
    }


def _spread(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.maximum(np.sqrt((values**2).mean(axis=0)), 0.05), np.float32)


def fit(
    table: Table,
    *,
    hidden: int = 12,
    epochs: int = 8,
    seed: int = 7,
    told: Callable[[int, float], None] | None = None,
) -> Coefficients:
    """Fits the coefficients. told: called with each epoch and its mean loss."""
    claim_scale = _spread(table.claims[table.mask > 0])
    context_scale = _spread(table.context)
    at = _start(hidden, seed)
    at["claims"][_FIXED] = claim_scale[_FIXED]
    first = {name: np.zeros_like(value) for name, value in at.items()}
    second = {name: np.zeros_like(value) for name, value in at.items()}
    chance = np.random.default_rng(seed)
    total, step = epochs * (len(table) // BATCH + 1), 0
    for epoch in range(epochs):
        order, losses = chance.permutation(len(table)), []
        for begin in range(0, len(order), BATCH):
            picked = order[begin : begin + BATCH]
            batch = _Batch(
                table.claims[picked] / claim_scale, table.mask[picked], table.context[picked] / context_scale,
                table.going[picked], table.active[picked], table.target[picked], table.weight[picked],
            )  # fmt: skip
            loss, gradient = _step(at, batch)
            losses.append(loss)
            step += 1
            rate = RATE * 0.5 * (1.0 + np.cos(np.pi * min(step / total, 1.0)))
            for name, value in gradient.items():
                slope = value + DECAY * LIGHTER.get(name, 1.0) * at[name]
                first[name] = np.asarray(0.9 * first[name] + 0.1 * slope, np.float32)
                second[name] = np.asarray(0.999 * second[name] + 0.001 * slope**2, np.float32)
                moved = first[name] / (1.0 - 0.9**step) / (np.sqrt(second[name] / (1.0 - 0.999**step)) + 1e-8)
                at[name] = (at[name] - rate * moved).astype(np.float32)
        if told:
            told(epoch, float(np.mean(losses)))
    around = context_scale[: len(TURN_FEATURES)]
    gates = at["gates"].copy()
    gates[:, : len(CLAIMS)] /= claim_scale
    return Coefficients(
        at["claims"] / claim_scale, at["stay"] / context_scale, at["nobody"] / context_scale, at["smalltalk"] / around,
        at["mixing"] / context_scale[:, None], gates,
    )  # fmt: skip


def blended(fits: Sequence[Coefficients]) -> Coefficients:
    """The model whose utilities are the mean of the fits' utilities, with their mixtures side by side."""
    return Coefficients(
        claims=np.mean([each.claims for each in fits], axis=0),
        stay=np.mean([each.stay for each in fits], axis=0),
        nobody=np.mean([each.nobody for each in fits], axis=0),
        smalltalk=np.mean([each.smalltalk for each in fits], axis=0),
        mixing=np.concatenate([each.mixing for each in fits], axis=1),
        gates=np.concatenate([each.gates for each in fits], axis=0) / len(fits),
    )
