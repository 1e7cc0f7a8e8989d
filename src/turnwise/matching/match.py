"""The result of matching a text: a score for each label, the nearest phrases, and the novelty."""

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PhraseKind = Literal["example", "name", "description", "capability"]


class Phrase(NamedTuple):
    """A text that describes a label: an example request, or words about the label itself."""

    label: str
    text: str
    kind: PhraseKind = "example"
    skill: str = ""
    """The part of the label it belongs to; empty = unknown, found by clustering."""
    private: bool = False
    """Whether reasons must not quote it, because a user wrote it."""


class GroupedPhrases(tuple[Phrase, ...]):
    """The phrases of several labels. Those of a label are in sequence.

    Attributes:
        groups: The phrases of each label. A label without phrases has none.
    """

    groups: tuple[tuple[Phrase, ...], ...]

    def __new__(cls, groups: "Iterable[tuple[Phrase, ...]]") -> "GroupedPhrases":
        """Makes one sequence of the phrases of each label."""
        kept = tuple(group for group in groups if group)
        made = super().__new__(cls, itertools.chain.from_iterable(kept))
        made.groups = kept
        return made


class Nearest(NamedTuple):
    """A known phrase and its cosine with the text, -1 to 1."""

    label: str
    text: str
    similarity: float
    private: bool = False
    """Whether reasons must not quote it."""


NEAREST, NEAREST_OF_A_LABEL = 5, 2
"""Maximum number of nearest phrases in a match, in total and per label."""

_AMONG_PARTS, _AGAINST_ALL = 15.0, 28.0
_AHEAD, _AHEAD_LESS = 0.27, 0.04
_LEAST, _LOWEST = 1e-9, -100.0


class Match(NamedTuple):
    """How well a text fits each label."""

    labels: tuple[str, ...]
    """All labels of the matcher, in its order. The arrays have one entry for each."""
    probabilities: "NDArray[np.float64]"
    """Calibrated probability of each label, given that the text belongs to any; the sum is 1."""
    similarities: "NDArray[np.float64]"
    """Cosine with the label's nearest phrase, -1 to 1."""
    novelty: float
    """Probability, 0 to 1, that the text is out of scope: no label should take it."""
    nearest: tuple[Nearest, ...]
    """Nearest phrases, best first: at most five, at most two of one label."""
    fitted: bool = True
    """False while the nearest phrases decide because the heads are not fitted yet."""

    def among(self, labels: Collection[str]) -> "Match":
        """Restricts the match to these labels, in the matcher's order, and renormalizes the probabilities.

        Empty when no label is left.
        """
        places, kept, wanted = _places(self.labels, labels if isinstance(labels, tuple) else frozenset(labels))
        if len(kept) == len(self.labels):
            return self
        probabilities = self.probabilities[places]
        total = float(probabilities.sum())
        return self._replace(
            labels=kept,
            probabilities=probabilities / total if total > 0.0 else probabilities + 1.0 / max(len(kept), 1),
            similarities=self.similarities[places],
            nearest=tuple(near for near in self.nearest if near.label in wanted),
        )

    def with_parts(self, parts: "Sequence[Match]") -> "Match":
        """Combines the match of a text with those of its parts, from the same matcher.

        A part weighs more the nearer it is to a phrase. The parts as a group weigh more against the whole text when one of
        them is much nearer to a phrase: this finds a request inside a story. More parts reduce the weight of the whole text.
        A label's similarity is that of its nearest part.
        """
        import numpy as np

        similarities = np.stack([each.similarities for each in parts])
        nearness = similarities.max(axis=1, initial=-1.0)
        shares = np.exp(_AMONG_PARTS * (nearness - nearness.max()))
        shares /= shares.sum()
        ahead = float(nearness.max() - self.similarities.max(initial=-1.0)) - (_AHEAD - _AHEAD_LESS * len(parts))
        weight = 1.0 / (1.0 + math.exp(_AGAINST_ALL * ahead))
        of_parts = shares @ np.stack([each.probabilities for each in parts])
        logs = weight * np.log(np.maximum(self.probabilities, _LEAST)) + (1.0 - weight) * np.log(np.maximum(of_parts, _LEAST))
        probabilities = np.exp(logs - logs.max(initial=_LOWEST))
        return self._replace(
            probabilities=probabilities / probabilities.sum() if len(probabilities) else probabilities,
            similarities=np.maximum(self.similarities, similarities.max(axis=0)),
            novelty=float(weight * self.novelty + (1.0 - weight) * (shares @ [each.novelty for each in parts])),
            nearest=_best(near for each in (self, *parts) for near in each.nearest),
        )

    def ranked(self, count: int) -> list[tuple[str, float]]:
        """Returns the `count` most probable labels with their probabilities, best first; ties in the matcher's order."""
        places, negated = None, -self.probabilities
        if 0 < count < len(negated):
            # Sorting thousands of labels for the best three would take a large part of a decision's time.
            bound = negated[negated.argpartition(count - 1)[count - 1]]
            places = (negated <= bound).nonzero()[0]
            negated = negated[places]
        order = negated.argsort(kind="stable")[:count]
        best = order if places is None else places[order]
        return [(self.labels[place], float(self.probabilities[place])) for place in best.tolist()]


def _best(found: Iterable[Nearest]) -> tuple[Nearest, ...]:
    """Returns the nearest phrases, without duplicates."""
    kept: dict[tuple[str, str], Nearest] = {}
    for near in sorted(found, key=lambda near: -near.similarity):
        if sum(label == near.label for label, _ in kept) < NEAREST_OF_A_LABEL:
            kept.setdefault((near.label, near.text), near)
    return tuple(kept.values())[:NEAREST]


@functools.lru_cache(maxsize=256)
def _places(
    labels: tuple[str, ...], among: tuple[str, ...] | frozenset[str]
) -> "tuple[NDArray[np.intp], tuple[str, ...], frozenset[str]]":
    """Returns the indices and names of the labels in `among`. Cached, since callers often use the same set."""
    import numpy as np

    wanted = frozenset(among)
    places = np.array([place for place, label in enumerate(labels) if label in wanted], np.intp)
    return places, tuple(labels[place] for place in places.tolist()), wanted
