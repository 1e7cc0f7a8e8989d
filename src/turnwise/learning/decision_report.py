"""Reports on the decisions of an app's traffic: misroutes, out of scope, conflicts of patterns, drift (behaviour H2)."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta

from pydantic import JsonValue

from turnwise.access.records import record_store_of
from turnwise.learning.collect_signals import MAX_DECISIONS, Step, all_labels, newest_decisions, no_step
from turnwise.learning.emerging import Group, group_texts, words_of
from turnwise.learning.estimates import Estimate, accuracy, calibration
from turnwise.learning.export_cases import redacted
from turnwise.learning.judged import ASKED, Judged, judged_decisions
from turnwise.learning.measures import Bin
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.decisions import Decision
from turnwise.ports.stores import SessionStore
from turnwise.selection.cascade import Cascade
from turnwise.selection.patterns import pattern_index
from turnwise.selection.vectors import vectors_of

SAMPLE = 20_000
"""How many texts are grouped by meaning, and compared with patterns: drawn at random from those that were read."""
EXAMPLES, PAIRS, WEEKS, TENTHS = 3, 50, 52, 10
_TEXT_CHARACTERS = 200
_SURE = 0.6


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReport:
    """The report on the decisions of an app: accuracy, misroutes, requests that nobody takes, conflicts, drift."""

    decisions: int
    complete: bool
    """False when there are older decisions that were not read."""
    first: datetime | None
    last: datetime | None
    labels: int
    """The number of decisions with a label that counts."""
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
    by_method: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    by_confidence: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(TENTHS)])
    weeks: dict[date, Week] = field(default_factory=dict)

    def add(self, decision: Decision, judged: Judged | None) -> None:
        """Counts one decision, with its judgement if it is labelled."""
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
            tally.right += judged is not None and judged.is_right
            tally.wrong += judged is not None and not judged.is_right
        if decision.text.strip():
            self.every.add(decision.text, selection.agent)
            if is_nobody and not asked and selection.method not in _MEANT:
                self.nobody.add(decision.text, selection.agent)


_MEANT = frozenset({"smalltalk", "direct_routing", "reply", "tool_result"})
"""Methods by which the default agent is the right one."""


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
        ConfigError: The store keeps no labels.
        StoreError: The store cannot be read.
        EncoderError: A message has no vector.
    """
    default = cascade.spec.default or cascade.tree.root
    labels = await all_labels(record_store_of(store).labels, app)
    judged = judged_decisions([each for each in labels if since is None or each.decided_at >= since], default)
    counts = _Counts(default, Reservoir(sample, seed), Reservoir(sample, seed))
    texts: dict[int, str] = {}
    async for each in newest_decisions(store, app, since=since, limit=limit, brief=True):
        known = judged.get((each.key, each.sequence))
        counts.add(each, known)
        if known is not None and not known.is_right:
            texts[id(known)] = _cut(each.text)
        if counts.decisions % 100 == 0:
            step("reading decisions", counts.decisions, 0)
    step("grouping messages", 0, 0)
    complete = counts.decisions < limit
    # Comparing texts takes seconds, and the caller may serve others meanwhile.
    return await asyncio.to_thread(_report, cascade, counts, list(judged.values()), texts, complete=complete)


def _report(
    cascade: Cascade, counts: _Counts, judged: Sequence[Judged], texts: Mapping[int, str], *, complete: bool
) -> DecisionReport:
    """Makes the report of the counts."""
    bins, distance = calibration(judged)
    pairs = Counter[tuple[str | None, str | None]]((each.expected, each.chosen or ASKED) for each in judged)
    conflicts = _conflicts(pattern_index(cascade.tree), counts.every.items)
    return DecisionReport(
        decisions=counts.decisions,
        complete=complete,
        first=counts.first,
        last=counts.last,
        labels=len(judged),
        accuracy=accuracy(judged),
        calibration=bins,
        calibration_error=distance,
        misroutes=_misroutes(judged, texts),
        pairs=pairs,
        rivals=_rivals(pairs),
        nobody=counts.nobody.seen,
        sampled=len(counts.nobody.items) if cascade.meaning is not None else 0,
        groups=_groups(cascade, counts),
        compared=len(counts.every.items),
        conflicts=conflicts,
        by_method=dict(sorted(counts.by_method.items(), key=lambda item: -item[1].decisions)),
        by_confidence=counts.by_confidence,
        weeks=sorted(counts.weeks.values(), key=lambda week: week.start)[-WEEKS:],
    )


def _misroutes(judged: Iterable[Judged], texts: Mapping[int, str]) -> list[Misroute]:
    """Returns the pairs of expected and chosen agent, the most frequent first, with sample messages."""
    wrong: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in judged:
        if not each.is_right:
            wrong[each.expected, each.chosen or ASKED].append(texts.get(id(each), ""))
    ordered = sorted(wrong.items(), key=lambda item: (-len(item[1]), item[0]))[:PAIRS]
    return [Misroute(*pair, len(said), _shown(said)) for pair, said in ordered]


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
    found: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for text, agent in sample if len(index) else ():
        names = sorted({hit.label for hit in index.match(text)})
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                found[one, other].append((text, agent))
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:PAIRS]
    return [
        Conflict(pair, len(said), dict(Counter(agent for _, agent in said).most_common()), _shown(text for text, _ in said))
        for pair, said in ordered
    ]


def _groups(cascade: Cascade, counts: _Counts) -> list[Group]:
    """Groups the messages that fell to nobody by meaning."""
    if cascade.meaning is None or not counts.nobody.items:
        return []
    texts = [_cut(text) for text, _ in counts.nobody.items]
    vectors = vectors_of(texts, cascade.meaning.encoder, cache=None, progress=no_step)
    everywhere = Counter(word for text, _ in counts.every.items for word in words_of(text))
    groups = group_texts(texts, vectors, everywhere, len(counts.every.items))
    return [group._replace(examples=_shown(group.examples, len(group.examples))) for group in groups]


def _shown(texts: Iterable[str], most: int = EXAMPLES) -> tuple[str, ...]:
    """Returns different texts for the page, without personal data and keys."""
    different: dict[str, None] = {}
    for text in texts:
        if text.strip() and len(different) < most:
            different[redacted(_cut(text))] = None
    return tuple(different)


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…"
