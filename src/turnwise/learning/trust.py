"""How sure a label is: by its weight, by what others say of similar texts, and by how often its user is contradicted (H5)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.learning.labelled import BLOCK, Labelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DOUBTED = 0.5
"""A label that is less likely right than this does not count."""
SUPPORT = 1.0
"""A text becomes an example if labels of that weight in total say the same of it, and of similar texts by other users."""
_SIMILAR = 0.5
"""The cosine above which texts say something of each other: nothing at this value, as much as themselves at 1."""
_UNKNOWN, _PASSES = 0.5, 3
_USER_PRIOR = 3.0
"""How many labels of an average user are added to each user's, so that few labels change little."""
_LEAST_TRUST, _CERTAIN = 0.02, 0.98


@dataclass(frozen=True, slots=True)
class Trust:
    """How sure the labels of messages are."""

    names: tuple[str | None, ...]
    """The agents that labels name; None = nobody."""
    expected: "NDArray[np.int64]"
    """The place of each label's agent among the names."""
    chances: "NDArray[np.float64]"
    """The probability that each agent is right, one row for each label. For an operator's label: its weight, for its agent."""
    support: "NDArray[np.float64]"
    """The weight of all labels that say the same of a text: its own, and those of other users for similar texts."""

    def belief(self, index: int) -> float:
        """Returns the probability that the label is right."""
        return float(self.chances[index, self.expected[index]])

    def chance(self, index: int, agent: str | None) -> float:
        """Returns the probability that this agent is right; 0 for one that no label names."""
        return float(self.chances[index, self.names.index(agent)]) if agent in self.names else 0.0

    def is_doubted(self, index: int) -> bool:
        """Returns whether the label is more likely wrong than right."""
        return self.belief(index) < DOUBTED

    def is_supported(self, index: int) -> bool:
        """Returns whether the labels suffice for an example."""
        return bool(self.support[index] >= SUPPORT)


def trust_in(labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]") -> Trust:
    """Returns how sure each label is. The work is quadratic in the number of labels that count, and done in blocks.

    A label starts with its weight. Labels of other users for similar texts raise or lower it. If others contradict a user's
    labels more often than average, all labels of this user count less. Operators overrule: nothing lowers their labels.

    Args:
        labelled: All labelled messages.
        which: The indices of those that count. The others have no chances.
        vectors: A unit vector of each.
    """
    import numpy as np

    near = _Neighbours(labelled, which, vectors)
    chances, support = np.zeros((len(labelled), len(near.names))), np.zeros(len(labelled))
    if not which:
        return Trust(near.names, near.expected, chances, support)
    rows = np.arange(len(which))
    own = near.expected[list(which)]
    weights = np.array([min(labelled[index].weight, 1.0) for index in which])
    by_operator = np.array([labelled[index].by_operator for index in which])
    prior = np.clip(weights, _LEAST_TRUST, _CERTAIN)
    found, beliefs = np.zeros((len(which), len(near.names))), prior
    for _ in range(_PASSES):
        votes = near.votes(beliefs)
        likely = (votes + _UNKNOWN / len(near.names)) / (votes.sum(axis=1, keepdims=True) + _UNKNOWN)
        alone = prior * _user_trust(labelled, which, beliefs, by_operator)
        found = np.repeat(((1.0 - alone) / max(len(near.names) - 1, 1))[:, None], len(near.names), axis=1)
        found[rows, own] = alone
        found *= likely
        found /= found.sum(axis=1, keepdims=True)
        beliefs = np.where(by_operator, prior, found[rows, own])
    found[by_operator] = 0.0
    found[rows[by_operator], own[by_operator]] = weights[by_operator]
    chances[list(which)] = found
    support[list(which)] = found[rows, own] + near.votes(beliefs)[rows, own]
    return Trust(near.names, near.expected, chances, support)


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
    """Returns who gave the label: its author, else the user of the conversation that implies it."""
    return each.author or each.user


class _Neighbours:
    """Similar texts of other users, with their labels."""

    def __init__(self, labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]") -> None:
        import numpy as np

        self._own = vectors[list(which)]
        self.names = tuple(sorted({each.expected for each in labelled}, key=lambda name: (name is not None, name or "")))
        self.expected = np.array([self.names.index(each.expected) for each in labelled], dtype=np.int64)
        self._says = np.eye(len(self.names))[self.expected[list(which)]]
        sources = {name: place for place, name in enumerate(dict.fromkeys(_source(labelled[index]) for index in which))}
        self._sources = np.array([sources[_source(labelled[index])] for index in which])
        self._is_operator = np.array([labelled[index].by_operator for index in which])

    def votes(self, beliefs: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Returns for each label the weight of the others for each agent."""
        import numpy as np

        found = np.zeros((len(beliefs), len(self.names)))
        for start in range(0, len(beliefs), BLOCK):
            rows = slice(start, start + BLOCK)
            near = np.clip((self._own[rows] @ self._own.T - _SIMILAR) / (1.0 - _SIMILAR), 0.0, 1.0) * beliefs
            near[(self._sources[rows, None] == self._sources) & ~self._is_operator] = 0.0
            near[np.arange(len(near)), np.arange(start, start + len(near))] = 0.0
            found[rows] = near @ self._says
        return found
