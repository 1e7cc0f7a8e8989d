"""The result of an evaluation: its measures and its subject."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.learning.measures import Measures, measure
from turnwise.learning.outcomes import Outcome
from turnwise.selection.cascade import Cascade

CONFUSIONS = 50
"""Maximum number of confusions in the data."""
BEFORE, AFTER = "accuracy_before", "accuracy_after"
"""Keys of `tuned` for the validation accuracy before and after tuning; they are not changes."""
_DIGITS = 6


class Subject(NamedTuple):
    """The evaluated policy and data."""

    policy: str
    fingerprint: str
    agents: int
    """Number of agents, without the default agent."""
    examples: int
    """Total number of examples."""
    history: str
    tuned: dict[str, JsonValue] | None = None
    """Changes made by tuning; None without validation cases."""
    unknown: Mapping[str, int] = {}
    """Agents in cases that the tree lacks, with their number of turns."""

    @property
    def tuning(self) -> str | None:
        """Returns the tuning's changes as one line of text; None without validation cases."""
        if self.tuned is None:
            return None
        pairs = {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in self.tuned.items()}
        if not self.tuned.keys() - {BEFORE, AFTER}:
            pairs.pop(AFTER, None)
            return "; ".join(["nothing was better, what was set before stays", *(f"{key} {pairs[key]}" for key in pairs)])
        return ", ".join(f"{key} {value}" for key, value in pairs.items())


class Evaluation(NamedTuple):
    """The outcomes in order, their measures, and the subject."""

    subject: Subject
    outcomes: Sequence[Outcome]
    measures: Measures

    def data(self) -> dict[str, JsonValue]:
        """Returns the measures and the subject as plain data, with at most 50 confusions. Shares are 0 to 1."""
        shown = self.measures._replace(confusions=self.measures.confusions[:CONFUSIONS])
        data: dict[str, JsonValue] = {**_plain(shown), **_plain(self.subject)}
        return data


def evaluation(subject: Subject, outcomes: Sequence[Outcome]) -> Evaluation:
    """Returns the evaluation of these outcomes."""
    return Evaluation(subject, outcomes, measure(outcomes))


def subject_of(cascade: Cascade, history: str, unknown: Mapping[str, int], tuned: dict[str, JsonValue] | None) -> Subject:
    """Returns the subject of an evaluation of this cascade."""
    tree = cascade.tree
    default = cascade.spec.default or tree.root
    examples = sum(len(card.examples) + len(card.learned) + sum(len(skill.examples) for skill in card.skills) for card in tree)
    agents = sum(card.name != default for card in tree)
    return Subject(cascade.spec.name, cascade.fingerprint, agents, examples, history, tuned, dict(unknown))


def _plain(value: Any) -> Any:
    """Returns a value as JSON data, with rounded numbers."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(each) for key, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
