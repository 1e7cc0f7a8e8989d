"""Counts what a replay found: which decisions change, between which agents, and which of them labels call right."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from turnwise.facts.selections import Selection
from turnwise.learning.replay import Obstacle, Redecision
from turnwise.selection.cascade import Cascade

CLARIFY = "(asks the user)"
"""Stands for a clarifying question in the pairs of a replay."""
KEPT, EXAMPLES, EXAMPLE_CHARACTERS = 1_000, 3, 200
COMPARED = (
    "decisions",
    "replayed",
    "equal",
    "changed",
    "changed_share",
    "labelled",
    "accuracy_before",
    "accuracy_after",
    "gain",
)
"""The figures of decisions that are made twice, which `--min` and `--max` may bound."""
FIGURES = (*COMPARED, "other_inputs")
"""The same of a replay."""


@dataclass(frozen=True, slots=True)
class Flip:
    """Messages that go from one agent to another."""

    before: str
    after: str
    count: int
    right: int
    """How many of them are right now, by their labels."""
    wrong: int
    """How many of them were right before."""
    examples: tuple[str, ...]
    """At most three messages."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The counts of a replay, and the decisions that changed."""

    policy: str
    """The name of the policy that decided now."""
    fingerprint: str
    decisions: int
    equal: int
    changed: tuple[Redecision, ...]
    """The first 1,000, in order."""
    flips: tuple[Flip, ...]
    """All changes by pair of agents, most frequent first."""
    by_method: Mapping[str, int]
    """The changes by the method that decides now."""
    obstacles: Mapping[Obstacle, int]
    other_inputs: int
    """How many decisions were recorded under another policy, other agents or other fitted texts."""
    labelled: int
    right_before: int
    right_after: int
    largest_confidence_change: float
    """Among equal decisions with equal inputs."""

    @property
    def replayed(self) -> int:
        return self.decisions - sum(self.obstacles.values())

    def data(self) -> dict[str, JsonValue]:
        """Returns the result as plain data. Shares are 0 to 1; examples have at most 200 characters."""
        flips: list[JsonValue] = [
            asdict(flip) | {"examples": [text[:EXAMPLE_CHARACTERS] for text in flip.examples]} for flip in self.flips
        ]
        return {
            "policy": self.policy,
            "fingerprint": self.fingerprint,
            "decisions": self.decisions,
            "replayed": self.replayed,
            "equal": self.equal,
            "changed": self.replayed - self.equal,
            "changed_share": self.share(self.replayed - self.equal),
            "labelled": self.labelled,
            "accuracy_before": self.accuracy(self.right_before),
            "accuracy_after": self.accuracy(self.right_after),
            "gain": self.gain,
            "flips": flips,
            "by_method": {**self.by_method},
            "not_replayed": {str(reason): count for reason, count in self.obstacles.items()},
            "other_inputs": self.other_inputs,
            "largest_confidence_change": round(self.largest_confidence_change, 6),
        }

    def share(self, count: int) -> float | None:
        """Returns the share of the replayed decisions, 0 to 1; None without any."""
        return round(count / self.replayed, 6) if self.replayed else None

    def accuracy(self, right: int) -> float | None:
        """Returns the share of the labelled decisions, 0 to 1; None without any."""
        return round(right / self.labelled, 6) if self.labelled else None

    @property
    def gain(self) -> float | None:
        """The change of the accuracy on labelled decisions; None without any."""
        return round((self.right_after - self.right_before) / self.labelled, 6) if self.labelled else None


class ReplayCounter:
    """Counts redecisions as they come. Its memory does not grow with their number."""

    def __init__(self, cascade: Cascade) -> None:
        self._policy, self._fingerprint = cascade.spec.name, cascade.fingerprint
        self._decisions = self._equal = self._other_inputs = 0
        self._labelled = self._right_before = self._right_after = 0
        self._margin = 0.0
        self._changed: list[Redecision] = []
        self._obstacles: Counter[Obstacle] = Counter()
        self._methods: Counter[str] = Counter()
        self._flips: dict[tuple[str, str], _FlipCount] = {}

    def add(self, found: Redecision) -> None:
        """Counts one redecision."""
        self._decisions += 1
        if found.obstacle is not None:
            self._obstacles[found.obstacle] += 1
            return
        assert found.before is not None
        assert found.after is not None
        self._other_inputs += not found.same_inputs
        label = found.place.label
        was, is_ = (label is not None and _is_right(each, label) for each in (found.before, found.after))
        self._labelled += label is not None
        self._right_before += was
        self._right_after += is_
        if found.is_equal:
            self._equal += 1
            if found.same_inputs:
                self._margin = max(self._margin, abs(found.before.confidence - found.after.confidence))
            return
        self._methods[found.after.method] += 1
        if len(self._changed) < KEPT:
            self._changed.append(found)
        flip = self._flips.setdefault((_shown(found.before), _shown(found.after)), _FlipCount())
        flip.add(found.text, right=is_ and not was, wrong=was and not is_)

    def result(self) -> ReplayResult:
        """Returns the counts so far."""
        flips = [Flip(*pair, each.count, each.right, each.wrong, tuple(each.examples)) for pair, each in self._flips.items()]
        return ReplayResult(
            policy=self._policy,
            fingerprint=self._fingerprint,
            decisions=self._decisions,
            equal=self._equal,
            changed=tuple(self._changed),
            flips=tuple(sorted(flips, key=lambda flip: (-flip.count, flip.before, flip.after))),
            by_method=dict(self._methods.most_common()),
            obstacles=dict(self._obstacles.most_common()),
            other_inputs=self._other_inputs,
            labelled=self._labelled,
            right_before=self._right_before,
            right_after=self._right_after,
            largest_confidence_change=self._margin,
        )


class _FlipCount:
    def __init__(self) -> None:
        self.count = self.right = self.wrong = 0
        self.examples: dict[str, None] = {}

    def add(self, text: str, *, right: bool, wrong: bool) -> None:
        self.count += 1
        self.right += right
        self.wrong += wrong
        if len(self.examples) < EXAMPLES:
            self.examples[text] = None


def _is_right(selection: Selection, label: str) -> bool:
    return selection.outcome == "chosen" and selection.agent == label


def _shown(selection: Selection) -> str:
    """Returns the agent, or the word for a question to the user."""
    return selection.agent if selection.outcome == "chosen" else CLARIFY
