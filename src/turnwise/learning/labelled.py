"""Labelled messages that a router can learn from, how they are split, and how much each source may weigh (H2, H3)."""

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
