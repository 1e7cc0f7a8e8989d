"""What matching says of a text: how well it fits each label, which examples say so, and whether it fits any at all."""

from collections.abc import Collection
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
        if len(labels) >= len(self.labels) and all(label in labels for label in self.labels):
            return self
        kept = [place for place, label in enumerate(self.labels) if label in labels]
        probabilities = self.probabilities[kept]
        total = float(probabilities.sum())
        return self._replace(
            labels=tuple(self.labels[place] for place in kept),
            probabilities=probabilities / total if total > 0.0 else probabilities + 1.0 / max(len(kept), 1),
            similarities=self.similarities[kept],
            nearest=tuple(near for near in self.nearest if near.label in labels),
        )

    def ranked(self, count: int) -> list[tuple[str, float]]:
        """The `count` likeliest labels with their probabilities, best first; equal ones in the matcher's order."""
        order = (-self.probabilities).argsort(kind="stable")[:count]
        return [(self.labels[place], float(self.probabilities[place])) for place in order]
