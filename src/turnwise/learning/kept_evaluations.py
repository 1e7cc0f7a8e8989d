"""Evaluations that are kept for comparison: their figures, in the audit log of the app (behaviour H1)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.learning.evaluation_result import Evaluation
from turnwise.ports.records import Act, Audit

EVALUATED = "evaluation.stored"
"""The act that the audit log keeps of each evaluation."""
CONFUSIONS, FILES = 20, 20
"""The most confusions, and names of files, that are kept."""
_FIGURES = ("cases", "accuracy", "in_scope_accuracy", "switch_accuracy", "stay_accuracy", "ece")


class KeptEvaluation(NamedTuple):
    """An evaluation that was kept."""

    id: int
    """Increases with time."""
    at: datetime
    actor: str
    figures: Mapping[str, JsonValue]


async def keep_evaluation(audit: Audit, app: str, actor: str, found: Evaluation, files: Sequence[str]) -> None:
    """Keeps the figures of an evaluation, without the texts of its cases. Raises StoreError.

    Args:
        audit: The audit log of the app.
        app: The app.
        actor: The evaluator's name.
        found: The evaluation.
        files: The names of the files of cases.
    """
    measures, subject = found.measures, found.subject
    confusions: list[JsonValue] = [
        {"expected": each.expected, "chosen": each.chosen, "count": each.count} for each in measures.confusions[:CONFUSIONS]
    ]
    details: dict[str, JsonValue] = {name: getattr(measures, name) for name in _FIGURES}
    details |= {"out_of_scope_f1": measures.nobody.f1, "confusions": confusions, "files": list(files[:FILES])}
    details |= {"policy": subject.policy, "fingerprint": subject.fingerprint}
    details |= {"agents": subject.agents, "examples": subject.examples}
    await audit.record(app, Act(actor, EVALUATED, details=details))


async def kept_evaluations(audit: Audit, app: str, *, limit: int) -> list[KeptEvaluation]:
    """Returns the newest evaluations that were kept, newest first. Raises StoreError."""
    page = await audit.list(app, action=EVALUATED, limit=limit)
    return [KeptEvaluation(each.id, each.at, each.actor, each.details) for each in page.items]
