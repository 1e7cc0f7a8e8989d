"""Groups messages by meaning, and proposes a name for each group: what many ask for and no agent does."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from turnwise.matching.normalize import normalize
from turnwise.matching.recall import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALIKE = 0.55
"""The least cosine of a message to the middle of its group."""
LEAST, MOST_GROUPS, EXAMPLES = 3, 20, 4
"""The fewest messages of a group, how many groups are returned, and how many examples each has."""
_MOST_CENTRES = 2_000
_NAME_WORDS = 2
_BLOCK = 512
_WORD = re.compile(r"[^\W\d_]{2,}")


class Group(NamedTuple):
    """Messages that ask for much the same."""

    name: str
    """The words that are typical of them, as an agent's name."""
    count: int  # type: ignore[assignment]  # hides a tuple method that is not used here
    examples: tuple[str, ...]
    """Different ones, those in the middle of the group first."""


def group_texts(texts: Sequence[str], vectors: "NDArray[np.float32]", everywhere: Mapping[str, int], total: int) -> list[Group]:
    """Returns groups of messages with much the same meaning, the largest first.

    Each message joins the nearest group if it is near enough, else it begins one; then all messages join the nearest group
    once more. The same messages in the same order give the same groups.

    Args:
        texts: The messages.
        vectors: A unit vector of each, of shape (messages, dimensions).
        everywhere: In how many messages of all traffic each word occurs.
        total: The number of these messages.
    """
    import numpy as np

    if not texts:
        return []
    centres = _centres(vectors)
    joined, cosines = _nearest(vectors, centres)
    groups = []
    for number in range(len(centres)):
        members = np.flatnonzero((joined == number) & (cosines >= ALIKE))
        if len(members) >= LEAST:
            inner = members[np.argsort(-cosines[members], kind="stable")]
            said = [texts[index] for index in inner.tolist()]
            groups.append(Group(_name(said, everywhere, total), len(said), tuple(_different(said))))
    return sorted(groups, key=lambda group: (-group.count, group.name))[:MOST_GROUPS]


def _centres(vectors: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Returns the unit vectors of the groups, after one pass over the messages."""
    import numpy as np

    sums = np.zeros((min(len(vectors), _MOST_CENTRES), vectors.shape[1]), np.float32)
    centres, count = np.zeros_like(sums), 0
    for vector in vectors:
        cosines = centres[:count] @ vector
        best = int(cosines.argmax()) if count else -1
        if count and (cosines[best] >= ALIKE or count == len(sums)):
            at = best
        else:
            at, count = count, count + 1
        sums[at] += vector
        centres[at] = sums[at] / max(float(np.linalg.norm(sums[at])), 1e-9)
    return centres[:count]


def _nearest(vectors: "NDArray[np.float32]", centres: "NDArray[np.float32]") -> "tuple[NDArray[np.intp], NDArray[np.float32]]":
    """Returns the nearest group of each message, and its cosine. It works in blocks, to bound the memory."""
    import numpy as np

    joined, cosines = np.empty(len(vectors), np.intp), np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        rows = slice(start, start + _BLOCK)
        found = vectors[rows] @ centres.T
        joined[rows], cosines[rows] = found.argmax(axis=1), found.max(axis=1)
    return joined, cosines


def _name(said: Sequence[str], everywhere: Mapping[str, int], total: int) -> str:
    """Returns the words that are frequent in the group and rare elsewhere, in the order of their first message."""
    inside = Counter(word for text in said for word in words_of(text))
    scores = {word: count / len(said) * math.log((1 + total) / (1 + everywhere.get(word, 0))) for word, count in inside.items()}
    best = sorted(scores, key=lambda word: (-scores[word], word))[:_NAME_WORDS]
    return "_".join(best) or "others"


def words_of(text: str) -> set[str]:
    """Returns the different words of a text, without frequent ones."""
    return {word for word in _WORD.findall(normalize(text, fold=True)) if _tells(word)}


@lru_cache(maxsize=65_536)
def _tells(word: str) -> bool:
    return bool(terms(word))


def _different(said: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text.strip() for text in said))[:EXAMPLES]
