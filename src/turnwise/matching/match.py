"""What matching says of a text: how well it fits each label, which examples say so, and whether it fits any at all."""

import functools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PhraseKind = Literal["example", "name", "description", "capability"]


class Phrase(NamedTuple):
    """A text that tells what belongs to a label: a request, or words about the label itself.

    skill: the part of the label it belongs to; empty = not known, then parts are found from the texts.
    """

    label: str
    text: str
    kind: PhraseKind = "example"
    skill: str = ""


class Nearest(NamedTuple):
    """A known phrase and its cosine with the text, -1 to 1."""

    label: str
    text: str
    similarity: float


NEAREST, NEAREST_OF_A_LABEL = 5, 2
"""So many phrases are told of a match."""

_AMONG_PARTS, _AGAINST_ALL = 15.0, 28.0
_AHEAD, _AHEAD_LESS = 0.27, 0.04
_LEAST, _LOWEST = 1e-9, -100.0


class Match(NamedTuple):
    """How a text fits the labels.

    labels: all of the matcher, in its order; the arrays have one place for each. probabilities: calibrated, sum 1 (if some
    label should take it, how likely is it this one). similarities: the cosine with the label's nearest phrase, -1 to 1.
    novelty: 0 to 1, how likely it is that none of the labels should take it. nearest: the nearest phrases, best first, at
    most five, at most two of one label. fitted: False while nearest phrases decide because the heads are not fitted yet.
    """

    labels: tuple[str, ...]
    probabilities: "NDArray[np.float64]"
    similarities: "NDArray[np.float64]"
    novelty: float
    nearest: tuple[Nearest, ...]
    fitted: bool = True

    def among(self, labels: Collection[str]) -> "Match":
        """The match over these labels only, in the matcher's order; probabilities sum to 1 again (none left: empty)."""
        places, kept, every = _places(self.labels, labels if isinstance(labels, tuple) else frozenset(labels))
        if len(kept) == len(self.labels):
            return self
        probabilities = self.probabilities[places]
        total = float(probabilities.sum())
        return self._replace(
            labels=kept,
            probabilities=probabilities / total if total > 0.0 else probabilities + 1.0 / max(len(kept), 1),
            similarities=self.similarities[places],
            nearest=tuple(near for near in self.nearest if near.label in every),
        )

    def with_parts(self, parts: "Sequence[Match]") -> "Match":
        """What the text and its parts say together; the parts are matched by the same matcher.

        A part counts the more the nearer it is to some phrase. All parts count against the text itself by how much nearer the
        nearest of them is: a request in a story is, and a request that is told at length is not. The more parts there are, the
        less does the text as a whole say. A label's similarity is that of its nearest part.
        """
        import numpy as np

        similarities = np.stack([each.similarities for each in parts])
        nearness = similarities.max(axis=1, initial=-1.0)
        shares = np.exp(_AMONG_PARTS * (nearness - nearness.max()))
        shares /= shares.sum()
        ahead = float(nearness.max() - self.similarities.max(initial=-1.0)) - (_AHEAD - _AHEAD_LESS * len(parts))
        own = 1.0 / (1.0 + math.exp(_AGAINST_ALL * ahead))
        said = shares @ np.stack([each.probabilities for each in parts])
        logs = own * np.log(np.maximum(self.probabilities, _LEAST)) + (1.0 - own) * np.log(np.maximum(said, _LEAST))
        probabilities = np.exp(logs - logs.max(initial=_LOWEST))
        return self._replace(
            probabilities=probabilities / probabilities.sum() if len(probabilities) else probabilities,
            similarities=np.maximum(self.similarities, similarities.max(axis=0)),
            novelty=float(own * self.novelty + (1.0 - own) * (shares @ [each.novelty for each in parts])),
            nearest=_best(near for each in (self, *parts) for near in each.nearest),
        )

    def ranked(self, count: int) -> list[tuple[str, float]]:
        """The `count` likeliest labels with their probabilities, best first; equal ones in the matcher's order."""
        places, falling = None, -self.probabilities
        if 0 < count < len(falling):
            # Sorting thousands of labels for three of them would be a good part of a route.
            bound = falling[falling.argpartition(count - 1)[count - 1]]
            places = (falling <= bound).nonzero()[0]
            falling = falling[places]
        order = falling.argsort(kind="stable")[:count]
        best = order if places is None else places[order]
        return [(self.labels[place], float(self.probabilities[place])) for place in best.tolist()]


def _best(found: Iterable[Nearest]) -> tuple[Nearest, ...]:
    """The nearest of them, each phrase once."""
    kept: dict[tuple[str, str], Nearest] = {}
    for near in sorted(found, key=lambda near: -near.similarity):
        if sum(label == near.label for label, _ in kept) < NEAREST_OF_A_LABEL:
            kept.setdefault((near.label, near.text), near)
    return tuple(kept.values())[:NEAREST]


@functools.lru_cache(maxsize=256)
def _places(
    labels: tuple[str, ...], among: tuple[str, ...] | frozenset[str]
) -> "tuple[NDArray[np.intp], tuple[str, ...], frozenset[str]]":
    """Which labels are among those, by place and by name. Remembered: callers of a kind may choose among the same ones."""
    import numpy as np

    every = frozenset(among)
    places = np.array([place for place, label in enumerate(labels) if label in every], np.intp)
    return places, tuple(labels[place] for place in places.tolist()), every
