"""Labelled messages to learn from: how they are split, how much each source may weigh, and how sure a label is (H2, H3, H5).

A label is sure by its weight, by the labels of similar texts, and by how often its user is contradicted.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FINAL_SHARE = 0.3
"""The share of the labelled messages that judges a draft. They are the latest."""
NEARLY_EQUAL = 0.95
"""Texts with a higher cosine count as one text."""
AGREED_SHARE = 0.8
"""The share of the weight that one label of nearly equal texts must have."""
SOURCE_SHARE, SOURCE_LEAST = 0.1, 5
"""A user, a session and a credential may each give this share of the labels that count, or that many.

The share is well below `FINAL_SHARE`: the labels that judge are the latest, and one source could give them all.
"""
MOST_LABELS = 20_000
"""How many labelled messages are learned from: the operators' newest, then the newest of others. Learning compares all of them
with each other, in blocks.
"""


BLOCK = 128
"""How many messages are compared with all others at once. It bounds the memory."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One labelled message."""

    text: str
    expected: str | None
    """The agent that should have been chosen; None means nobody, so the default agent."""
    chosen: str | None
    """The agent that was chosen; None for the default agent or a question to the user."""
    user: str
    session: str
    at: float
    """When it was decided, in seconds. Only the order counts."""
    author: str = ""
    """The author of the label; for ratings and conversations the credential. Empty if that is the user's, or unknown."""
    credential: str = ""
    """The digest of the credential that is the author; empty for other authors."""
    by_operator: bool = True
    """Operators overrule: their labels have no cap."""
    opens: bool = True
    """Whether the message starts a conversation or changes the agent. Others depend on what was said before."""
    sequence: int = 0
    """The message's number in its session; 0 for a case of a file: its user and session are made up."""
    segment: str | None = None
    """The label of the policy's segment that decided; None outside all segments."""
    probability: float | None = None
    """The probability with which it was picked for labelling; None means unknown."""
    weight: float = 1.0
    """How much the label counts, 0 to 1. Signals count less than people."""

    @property
    def is_right(self) -> bool:
        return self.chosen == self.expected


def capped(labelled: Sequence[Labelled]) -> list[int]:
    """Returns the indices of the messages that count, in order.

    Labels of operators always count. Of the others, no user, session or author gives more than a tenth of all labels that
    count, or five if that is more. Their earliest labels count.
    """
    others = [index for index, each in enumerate(labelled) if not each.by_operator]
    by_operators = len(labelled) - len(others)
    others.sort(key=lambda index: (labelled[index].at, index))
    kept = others
    while True:  # a source that gives most of the labels must not raise its own cap
        most = max(SOURCE_LEAST, math.ceil(SOURCE_SHARE * (len(kept) + by_operators)))
        before, kept = len(kept), _within(labelled, others, most)
        if len(kept) == before or most == SOURCE_LEAST:
            break
    return sorted([*kept, *(index for index, each in enumerate(labelled) if each.by_operator)])


def _within(labelled: Sequence[Labelled], which: Sequence[int], most: int) -> list[int]:
    """Returns the indices, in order, without those beyond that number of a user, a session or an author."""
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for index in which:
        each = labelled[index]
        sources = [("user", each.user), ("session", f"{each.user}\n{each.session}"), ("author", each.author or each.user)]
        if all(counts[source] < most for source in sources):
            kept.append(index)
            counts.update(sources)
    return kept


class CappedCredential(NamedTuple):
    """A credential that named several users, and whose labels exceed the cap."""

    digest: str
    labels: int
    """How many of its labels do not count."""
    users: int
    """How many users gave these."""


def capped_credentials(left_out: Iterable[Labelled]) -> list[CappedCredential]:
    """Returns the credentials of the labels that are over the cap, if they named several users, the most labels first."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    for each in left_out:
        if each.credential:
            users[each.credential].append(each.user)
    found = [CappedCredential(digest, len(of), len(set(of))) for digest, of in users.items()]
    return sorted((each for each in found if each.users > 1), key=lambda each: (-each.labels, each.digest))


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of labelled messages: those to learn from, and the later ones that judge what was learned."""

    learn: tuple[int, ...]
    final: tuple[int, ...]
    near_equal: int
    """How many messages were left out of `learn`, because the final part has nearly the same text."""


def split(
    labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]", share: float = FINAL_SHARE
) -> Split:
    """Splits messages by time. All messages of a user stay on one side; with too few users, those of a session do.

    Args:
        labelled: All labelled messages.
        which: The indices to split.
        vectors: A unit vector of each labelled message, of shape (messages, dimensions).
        share: The least share of the final part.
    """
    groups = _groups(labelled, which, lambda each: each.user)
    if len(groups) < 4:
        groups = _groups(labelled, which, lambda each: f"{each.user}\n{each.session}")
    final: list[int] = []
    for members in sorted(groups, key=lambda members: (-max(labelled[index].at for index in members), members)):
        if len(final) >= share * len(which):
            break
        final += members
    left = [index for index in which if index not in set(final)]
    if not final or not left:
        return Split(tuple(left), tuple(sorted(final)), 0)
    judging = vectors[final].T
    learn: list[int] = []
    for start in range(0, len(left), BLOCK):
        some = left[start : start + BLOCK]
        nearest = (vectors[some] @ judging).max(axis=1)
        learn += [index for index, cosine in zip(some, nearest.tolist(), strict=True) if cosine <= NEARLY_EQUAL]
    return Split(tuple(learn), tuple(sorted(final)), len(left) - len(learn))


def _groups(labelled: Sequence[Labelled], which: Iterable[int], name: Callable[[Labelled], str]) -> list[list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index in which:
        found[name(labelled[index])].append(index)
    return list(found.values())


def without_contradictions(labelled: Sequence[Labelled], which: Sequence[int], vectors: "NDArray[np.float32]") -> list[int]:
    """Returns the indices of labels that most users gave to nearly equal texts, or on which operators agree.

    A user counts once for each label, by the heaviest. The work is quadratic in the number of messages, and done in blocks.
    """
    indices = list(which)
    if not indices:
        return []
    kept = []
    own = vectors[indices]
    for start in range(0, len(indices), BLOCK):
        cosines = own[start : start + BLOCK] @ own.T
        for row, index in zip(cosines, indices[start : start + BLOCK], strict=True):
            alike = [labelled[indices[at]] for at in (row > NEARLY_EQUAL).nonzero()[0].tolist()]
            by_operators = {each.expected for each in alike if each.by_operator}
            if by_operators == {labelled[index].expected} or (not by_operators and _agree(alike, labelled[index].expected)):
                kept.append(index)
    return kept


def _agree(alike: Sequence[Labelled], expected: str | None) -> bool:
    """Returns whether this label has nearly all the weight of the users that labelled nearly equal texts."""
    weights: dict[tuple[str | None, str], float] = {}
    for each in alike:
        source = (each.expected, each.author or each.user)
        weights[source] = max(weights.get(source, 0.0), each.weight)
    total = sum(weights.values())
    own = sum(weight for (name, _), weight in weights.items() if name == expected)
    return own >= AGREED_SHARE * total > 0


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
