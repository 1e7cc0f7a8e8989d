"""Reports on the decisions of an app's traffic: misroutes, out of scope, conflicts of patterns, drift (behaviour H2).

Messages that no agent takes are grouped by meaning, with a proposed name for each group: what many ask for and no agent does.
"""

import asyncio
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from turnwise.learning.collect_signals import MAX_DECISIONS, Step, newest_decisions, no_step
from turnwise.learning.estimates import ASKED, Estimate, Estimator, Judged, judged
from turnwise.learning.export_cases import redacted
from turnwise.learning.measures import Bin
from turnwise.matching.normalize import normalize
from turnwise.matching.patterns import PatternIndex
from turnwise.matching.recall import terms
from turnwise.ports.decisions import Decision
from turnwise.ports.stores import SessionStore
from turnwise.selection.cascade import Cascade
from turnwise.selection.patterns import pattern_index
from turnwise.selection.vectors import vectors_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE = 20_000
"""How many texts are grouped by meaning, and compared with patterns: drawn at random from those that were read."""
EXAMPLES, PAIRS, WEEKS, TENTHS = 3, 50, 52, 10
_TEXT_CHARACTERS = 200
_SURE = 0.6

_MEANT = frozenset({"smalltalk", "direct_routing", "reply", "tool_result"})
"""Methods by which the default agent is the right one."""

ALIKE = 0.55
"""The least cosine of a message to the middle of its group."""
LEAST_GROUP, MOST_GROUPS, GROUP_EXAMPLES = 3, 20, 4
"""The fewest messages of a group, how many groups are returned, and how many examples each has."""
_MOST_CENTRES = 2_000
_NAME_WORDS = 2
_BLOCK = 512
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Misroute:
    """Messages for one agent that another one got, by their labels."""

    expected: str
    chosen: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rivals:
    """Two agents that take each other's messages, by labels."""

    one: str
    other: str
    to_other: int
    """How many messages of the first one the other one got."""
    to_one: int
    agreed: int
    """How many messages of both went to the right one."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two agents whose patterns match the same messages."""

    agents: tuple[str, str]
    count: int
    won: Mapping[str, int]
    """The agents that got them."""
    examples: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """The decisions of one kind, and how many are right by their labels."""

    decisions: int = 0
    right: int = 0
    wrong: int = 0


@dataclass(slots=True)
class Week:
    """The decisions of a week."""

    start: date
    decisions: int = 0
    nobody: int = 0
    """How many went to the default agent."""
    asked: int = 0
    """How many asked the user to choose."""
    unsure: int = 0
    """How many had a confidence below 0.6."""
    right: int = 0
    wrong: int = 0


class Group(NamedTuple):
    """Messages that ask for much the same."""

    name: str
    """The words that are typical of them, as an agent's name."""
    count: int  # type: ignore[assignment]  # hides a tuple method that is not used here
    examples: tuple[str, ...]
    """Different ones, those in the middle of the group first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReport:
    """The report on the decisions of an app: accuracy, misroutes, requests that nobody takes, conflicts, drift."""

    decisions: int
    complete: bool
    """False when there are older decisions that were not read."""
    first: datetime | None
    last: datetime | None
    labels: int
    """How many of them have a label that counts."""
    accuracy: Estimate | None
    calibration: Sequence[Bin]
    calibration_error: float | None
    misroutes: Sequence[Misroute]
    pairs: Mapping[tuple[str | None, str | None], int]
    """How often each pair of right and chosen agent occurs in labels."""
    rivals: Sequence[Rivals]
    nobody: int
    """How many messages went to the default agent."""
    sampled: int
    """How many of these were grouped."""
    groups: Sequence[Group]
    compared: int
    """How many messages were compared with patterns."""
    conflicts: Sequence[Conflict]
    by_method: Mapping[str, Tally]
    by_confidence: Sequence[Tally]
    """By tenth, lowest first."""
    weeks: Sequence[Week]

    def data(self) -> dict[str, JsonValue]:
        """Returns the report as plain data. Shares are 0 to 1."""
        return {
            "decisions": self.decisions,
            "complete": self.complete,
            "first": self.first.isoformat() if self.first else None,
            "last": self.last.isoformat() if self.last else None,
            "labels": self.labels,
            "accuracy": self.accuracy._asdict() if self.accuracy else None,
            "calibration_error": self.calibration_error,
            "calibration": [each._asdict() for each in self.calibration],
            "misroutes": [_listed(asdict(each)) for each in self.misroutes],
            "rivals": [asdict(each) for each in self.rivals],
            "nobody": self.nobody,
            "sampled": self.sampled,
            "groups": [_listed(each._asdict()) for each in self.groups],
            "compared": self.compared,
            "conflicts": [_listed(asdict(each)) for each in self.conflicts],
            "by_method": {name: asdict(each) for name, each in self.by_method.items()},
            "by_confidence": [asdict(each) for each in self.by_confidence],
            "weeks": [asdict(each) | {"start": each.start.isoformat()} for each in self.weeks],
        }


def _listed(data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}


class Reservoir:
    """A uniform sample of at most `size` items of a stream (algorithm R in Vitter, ACM TOMS 11, 1985)."""

    def __init__(self, size: int, seed: int) -> None:
        self.items: list[tuple[str, str]] = []
        """Texts with the agents that were chosen."""
        self.seen = 0
        self._size, self._random = size, random.Random(seed)

    def add(self, text: str, agent: str) -> None:
        self.seen += 1
        if len(self.items) < self._size:
            self.items.append((text, agent))
        elif (place := self._random.randrange(self.seen)) < self._size:
            self.items[place] = (text, agent)


@dataclass(slots=True)
class _Counts:
    """The counts of one pass over the decisions."""

    default: str
    every: Reservoir
    nobody: Reservoir
    decisions: int = 0
    first: datetime | None = None
    last: datetime | None = None
    labels: int = 0
    estimator: Estimator = field(default_factory=Estimator)
    pairs: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    """How often each pair of expected and chosen agent occurs."""
    misroutes: defaultdict[tuple[str, str], "_Examples"] = field(default_factory=lambda: defaultdict(_Examples))
    by_method: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    by_confidence: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(TENTHS)])
    weeks: dict[date, Week] = field(default_factory=dict)

    def add(self, decision: Decision) -> None:
        """Counts one decision with its labels."""
        known = judged(decision, self.default)
        if known is not None:
            self._add_judged(known, decision.text)
        selection, at = decision.selection, decision.created_at
        self.decisions += 1
        self.first, self.last = min(self.first or at, at), max(self.last or at, at)
        start = (at - timedelta(days=at.weekday())).date()
        week = self.weeks.setdefault(start, Week(start))
        tenth = self.by_confidence[min(int(selection.confidence * TENTHS), TENTHS - 1)]
        asked, is_nobody = selection.outcome != "chosen", selection.agent == self.default
        week.asked += asked
        week.nobody += is_nobody and not asked
        week.unsure += selection.confidence < _SURE
        for tally in (week, self.by_method[selection.method], tenth):
            tally.decisions += 1
            tally.right += known is not None and known.is_right
            tally.wrong += known is not None and not known.is_right
        if decision.text.strip():
            self.every.add(decision.text, selection.agent)
            if is_nobody and not asked and selection.method not in _MEANT:
                self.nobody.add(decision.text, selection.agent)

    def _add_judged(self, known: Judged, text: str) -> None:
        self.labels += 1
        self.estimator.add(known)
        pair = known.expected, known.chosen or ASKED
        self.pairs[pair] += 1
        if not known.is_right:
            self.misroutes[pair].add(text)


class _Examples:
    """Counts messages, and keeps some different ones, without personal data and keys."""

    def __init__(self, most: int = EXAMPLES) -> None:
        self.count, self.texts, self._most = 0, dict[str, None](), most

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.texts) < self._most and text.strip():
            self.texts[redacted(_cut(text))] = None


async def decision_report(
    store: SessionStore,
    app: str,
    cascade: Cascade,
    *,
    since: datetime | None = None,
    limit: int = MAX_DECISIONS,
    sample: int = SAMPLE,
    seed: int = 0,
    step: Step = no_step,
) -> DecisionReport:
    """Reads the newest decisions once, with their labels. The memory does not grow with the number of decisions.

    Args:
        store: The store.
        app: The app.
        cascade: Its policy and agents: the default agent, the patterns, and the encoder that groups messages.
        since: Only decisions made at this time or later.
        limit: The most decisions.
        sample: The most texts to group, and to compare with patterns.
        seed: The seed of the draw.
        step: Called after each hundred decisions.

    Raises:
        StoreError: The store cannot be read.
        EncoderError: A message has no vector.
    """
    counts = _Counts(cascade.spec.default or cascade.tree.root, Reservoir(sample, seed), Reservoir(sample, seed))
    async for each in newest_decisions(store, app, since=since, limit=limit, brief=True, labels=True):
        counts.add(each)
        if counts.decisions % 100 == 0:
            step("reading decisions", counts.decisions, 0)
    step("grouping messages", 0, 0)
    complete = counts.decisions < limit
    # Comparing texts takes seconds, and the caller may serve others meanwhile.
    return await asyncio.to_thread(_report, cascade, counts, complete=complete)


def _report(cascade: Cascade, counts: _Counts, *, complete: bool) -> DecisionReport:
    """Makes the report of the counts."""
    bins, distance = counts.estimator.calibration()
    conflicts = _conflicts(pattern_index(cascade.tree), counts.every.items)
    return DecisionReport(
        decisions=counts.decisions,
        complete=complete,
        first=counts.first,
        last=counts.last,
        labels=counts.labels,
        accuracy=counts.estimator.accuracy(),
        calibration=bins,
        calibration_error=distance,
        misroutes=_misroutes(counts.misroutes),
        pairs=counts.pairs,
        rivals=_rivals(counts.pairs),
        nobody=counts.nobody.seen,
        sampled=len(counts.nobody.items) if cascade.meaning is not None else 0,
        groups=_groups(cascade, counts),
        compared=len(counts.every.items),
        conflicts=conflicts,
        by_method=dict(sorted(counts.by_method.items(), key=lambda item: -item[1].decisions)),
        by_confidence=counts.by_confidence,
        weeks=sorted(counts.weeks.values(), key=lambda week: week.start)[-WEEKS:],
    )


def _misroutes(wrong: Mapping[tuple[str, str], _Examples]) -> list[Misroute]:
    """Returns the pairs of expected and chosen agent, the most frequent first, with sample messages."""
    ordered = sorted(wrong.items(), key=lambda item: (-item[1].count, item[0]))[:PAIRS]
    return [Misroute(*pair, each.count, tuple(each.texts)) for pair, each in ordered]


def _rivals(pairs: Mapping[tuple[str | None, str | None], int]) -> list[Rivals]:
    """Returns the pairs of agents that confuse both ways, the most confused first."""
    found = []
    for (expected, chosen), count in pairs.items():
        back = pairs.get((chosen, expected), 0)
        if expected is not None and chosen is not None and expected < chosen and count and back:
            agreed = pairs.get((expected, expected), 0) + pairs.get((chosen, chosen), 0)
            found.append(Rivals(expected, chosen, count, back, agreed))
    return sorted(found, key=lambda each: (-each.to_other - each.to_one, each.one, each.other))[:PAIRS]


def _conflicts(index: PatternIndex, sample: Iterable[tuple[str, str]]) -> list[Conflict]:
    """Returns the pairs of agents whose patterns match the same messages, the most frequent first."""
    found: defaultdict[tuple[str, str], _Examples] = defaultdict(_Examples)
    won: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for text, agent in sample if len(index) else ():
        names = sorted({hit.label for hit in index.match(text)})
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                found[one, other].add(text)
                won[one, other][agent] += 1
    ordered = sorted(found.items(), key=lambda item: (-item[1].count, item[0]))[:PAIRS]
    return [Conflict(pair, each.count, dict(won[pair].most_common()), tuple(each.texts)) for pair, each in ordered]


def _groups(cascade: Cascade, counts: _Counts) -> list[Group]:
    """Groups the messages that fell to nobody by meaning."""
    if cascade.meaning is None or not counts.nobody.items:
        return []
    texts = [_cut(text) for text, _ in counts.nobody.items]
    vectors = vectors_of(texts, cascade.meaning.encoder, cache=None, progress=no_step)
    everywhere = Counter(word for text, _ in counts.every.items for word in words_of(text))
    groups = group_texts(texts, vectors, everywhere, len(counts.every.items))
    return [group._replace(examples=_shown(group.examples)) for group in groups]


def _shown(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the different texts for the page, without personal data and keys."""
    found = _Examples(len(texts))
    for each in texts:
        found.add(each)
    return tuple(found.texts)


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…"


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
        if len(members) >= LEAST_GROUP:
            inner = members[np.argsort(-cosines[members], kind="stable")]
            said = [texts[index] for index in inner.tolist()]
            groups.append(Group(_group_name(said, everywhere, total), len(said), tuple(_different(said))))
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


def _group_name(said: Sequence[str], everywhere: Mapping[str, int], total: int) -> str:
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
    return list(dict.fromkeys(text.strip() for text in said))[:GROUP_EXAMPLES]
