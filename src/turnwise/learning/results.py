"""An evaluation as a whole: its figures, and what they were measured on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.learning.measures import Measures, measure
from turnwise.learning.outcomes import Outcome
from turnwise.selection.cascade import Cascade

CONFUSIONS = 50
BEFORE, AFTER = "accuracy_before", "accuracy_after"
"""The two keys of `tuned` that tell no change: how many validation cases were right before it and after it."""
_DIGITS = 6


class Subject(NamedTuple):
    """What was evaluated. agents: how many, the default agent aside; examples: how many they have in all; tuned: what the
    validation cases changed, None without them; unknown: agents that cases name and the tree does not have, with how many
    turns name each."""

    policy: str
    fingerprint: str
    agents: int
    examples: int
    history: str
    tuned: dict[str, JsonValue] | None = None
    unknown: Mapping[str, int] = {}

    @property
    def tuning(self) -> str | None:
        """What the validation cases changed, as a line of text; None without them."""
        if self.tuned is None:
            return None
        pairs = {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in self.tuned.items()}
        if not self.tuned.keys() - {BEFORE, AFTER}:
            pairs.pop(AFTER, None)
            return "; ".join(["nothing was better, what was set before stays", *(f"{key} {pairs[key]}" for key in pairs)])
        return ", ".join(f"{key} {value}" for key, value in pairs.items())


class Evaluation(NamedTuple):
    """The decisions in their order, what they amount to, and on what they were made."""

    subject: Subject
    outcomes: Sequence[Outcome]
    measures: Measures

    def data(self) -> dict[str, JsonValue]:
        """The measures as plain data, shares 0 to 1, with the 50 most frequent confusions, and the subject behind them."""
        shown = self.measures._replace(confusions=self.measures.confusions[:CONFUSIONS])
        data: dict[str, JsonValue] = {**_plain(shown), **_plain(self.subject)}
        return data


def evaluation(subject: Subject, outcomes: Sequence[Outcome]) -> Evaluation:
    """The evaluation of these decisions."""
    return Evaluation(subject, outcomes, measure(outcomes))


def subject_of(cascade: Cascade, history: str, unknown: Mapping[str, int], tuned: dict[str, JsonValue] | None) -> Subject:
    """What is said of a cascade in an evaluation."""
    tree = cascade.tree
    default = cascade.spec.default or tree.root
    examples = sum(len(card.examples) + sum(len(skill.examples) for skill in card.skills) for card in tree)
    agents = sum(card.name != default for card in tree)
    return Subject(cascade.spec.name, cascade.fingerprint, agents, examples, history, tuned, dict(unknown))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(each) for key, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
