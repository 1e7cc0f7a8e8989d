"""How sure a label is: by its weight, by what others say of similar texts, and by how often its user is contradicted (H5)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.learning.labelled import Labelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DOUBTED = 0.5
"""A label that is less likely right than this does not count."""
SUPPORT = 1.0
"""A text becomes an example if labels of that weight in total say the same of it, and of similar texts by other users."""
_SIMILAR = 0.5
"""The cosine above which texts say something of each other: nothing at this value, as much as themselves at 1."""
_UNKNOWN, _PASSES, _BLOCK = 0.5, 3, 512
_USER_PRIOR = 3.0
"""How many labels of an average user are added to each user's, so that few labels change little."""
_LEAST_TRUST, _CERTAIN = 0.02, 0.98


@dataclass(frozen=True, slots=True)
class Trust:
    """How sure the labels of messages are."""

    beliefs: "NDArray[np.float64]"
    """The probability that each label is right. That of an operator is its weight."""
    support: "NDArray[np.float64]"
    """The weight of all labels that say the same of a text: its own, and those of other users for similar texts."""

    def is_doubted(self, index: int) -> bool:
        """Returns whether the label is more likely wrong than right."""
        return bool(self.beliefs[index] < DOUBTED)

    def is_supported(self, index: int) -> bool:
        """Returns whether the labels suffice for an example."""
        return bool(self.support[index] >= SUPPORT)


def trust_in(labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]") -> Trust:
    """Returns how sure each label is. The work is quadratic in the number of labels that count, and done in blocks.

    A label starts with its weight. Labels of other users for similar texts raise or lower it. A user whose labels others
    contradict more often than average is believed less, in all labels. Operators overrule: nothing lowers their labels.

    Args:
        labelled: All labelled messages.
        which: The indices of those that count. Others have the belief 0.
        vectors: A unit vector of each.
    """
    import numpy as np

    beliefs, support = np.zeros(len(labelled)), np.zeros(len(labelled))
    if not which:
        return Trust(beliefs, support)
    near = _Neighbours(labelled, which, vectors)
    weights = np.array([min(labelled[index].weight, 1.0) for index in which])
    by_operator = np.array([labelled[index].by_operator for index in which])
    prior = np.clip(weights, _LEAST_TRUST, _CERTAIN)
    found = prior
    for _ in range(_PASSES):
        agreeing, all_ = near.votes(found)
        likely = (agreeing + _UNKNOWN / near.agents) / (all_ + _UNKNOWN)
        alone = prior * _user_trust(labelled, which, found, by_operator)
        right, wrong = alone * likely, (1.0 - alone) * (1.0 - likely) / (near.agents - 1)
        found = np.where(by_operator, prior, right / (right + wrong))
    agreeing, _ = near.votes(found)
    beliefs[list(which)] = np.where(by_operator, weights, found)
    support[list(which)] = np.where(by_operator, weights, found) + agreeing
    return Trust(beliefs, support)


def _user_trust(
    labelled: Sequence[Labelled], which: Sequence[int], beliefs: "NDArray[np.float64]", by_operator: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """Returns how much each label's user is believed, at most 1: the mean belief of the user's labels over that of all."""
    import numpy as np

    own: defaultdict[str, list[float]] = defaultdict(list)
    for place, index in enumerate(which):
        if not by_operator[place]:
            own[_source(labelled[index])].append(float(beliefs[place]))
    every = [belief for found in own.values() for belief in found]
    mean = sum(every) / len(every) if every else 1.0
    trust = {
        name: min((sum(found) + _USER_PRIOR * mean) / (len(found) + _USER_PRIOR) / mean, 1.0) for name, found in own.items()
    }
    return np.array([trust.get(_source(labelled[index]), 1.0) for index in which])


def _source(each: Labelled) -> str:
    """Returns who gave the label: its author, else the user whose conversation implies it."""
    return each.author or each.user


class _Neighbours:
    """Similar texts of other users, with their labels."""

    def __init__(self, labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]") -> None:
        import numpy as np

        self._own = vectors[list(which)]
        names = sorted({labelled[index].expected or "" for index in which})
        self._expected = np.array([names.index(labelled[index].expected or "") for index in which])
        sources = {name: place for place, name in enumerate(dict.fromkeys(_source(labelled[index]) for index in which))}
        self._sources = np.array([sources[_source(labelled[index])] for index in which])
        self._is_operator = np.array([labelled[index].by_operator for index in which])
        self.agents = max(len(names), 2)

    def votes(self, beliefs: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Returns for each label the weight of the others that agree, and that of all others."""
        import numpy as np

        agreeing, all_ = np.zeros(len(beliefs)), np.zeros(len(beliefs))
        for start in range(0, len(beliefs), _BLOCK):
            rows = slice(start, start + _BLOCK)
            near = np.clip((self._own[rows] @ self._own.T - _SIMILAR) / (1.0 - _SIMILAR), 0.0, 1.0) * beliefs
            is_own = self._sources[rows, None] == self._sources
            near[is_own & ~self._is_operator] = 0.0
            near[np.arange(len(near)), np.arange(start, start + len(near))] = 0.0
            all_[rows] = near.sum(axis=1)
            agreeing[rows] = (near * (self._expected[rows, None] == self._expected)).sum(axis=1)
        return agreeing, all_
