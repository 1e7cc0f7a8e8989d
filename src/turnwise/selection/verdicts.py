"""Making verdicts, and making sure of those that others made."""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnwise.facts.selections import Candidate, Verdict
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.ports.stopping import is_stopped

if TYPE_CHECKING:
    from turnwise.matching.spelling import Correction

RECORDED = 50
"""So many candidates, authors passed over, and things ignored are kept of one verdict."""
SHOWN_CHARACTERS = 64
_REASON_CHARACTERS = 500
_log = logging.getLogger("turnwise.selection")
_SLIPS_TOLD = 3


def chosen(selector: str, agent: str, *, method: str, confidence: float, reason: str, **more: Any) -> Verdict:
    """A verdict that chooses; `more` are other fields of it."""
    return Verdict(
        selector=selector, outcome="chosen", agent=agent, method=method, confidence=confidence, reason=reason, **more
    )


def abstained(selector: str, reason: str, **more: Any) -> Verdict:
    """A verdict that chooses nobody; `more` are other fields of it."""
    return Verdict(selector=selector, reason=reason, **more)


def with_corrections(verdict: Verdict, slips: "Sequence[Correction]") -> Verdict:
    """The verdict; its reason says which words of the message were read as others."""
    if not slips:
        return verdict
    words = ", ".join(f"“{shortened(slip.typed)}” as “{shortened(slip.meant)}”" for slip in slips[:_SLIPS_TOLD])
    return verdict.model_copy(update={"reason": f"{verdict.reason} It reads {words}."})


def shortened(text: str) -> str:
    """What somebody wrote, short enough for a record, on one line."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return short if short.isprintable() else "".join(c if c.isprintable() else "�" for c in short)


async def ask_selector(selector: Selector, request: SelectionRequest, name: str) -> Verdict:
    """The selector's verdict under this name. What the selector does wrong is an abstention on record: an exception, a value
    that is no verdict, an agent that may not be chosen.
    """
    task = asyncio.current_task()
    try:
        return checked_verdict(await selector.select(request), request, name)
    except BaseException as problem:
        if is_stopped(problem, task):
            raise
        # The text of the exception may hold a secret or the user's words: its type has to do.
        _log.warning("The selector %r raised %s.", name, type(problem).__name__)
        return abstained(name, f"It raised {type(problem).__name__}, so it was passed over.")


def checked_verdict(verdict: object, request: SelectionRequest, selector: str) -> Verdict:
    """The verdict under this selector's name, if it keeps to the request; an abstention that says why not otherwise.

    It keeps to it when it chooses among the eligible, or offers some of them to clarify. Confidences are brought into 0 to
    1, and long lists and reasons are cut.
    """
    if not isinstance(verdict, Verdict):
        return abstained(selector, f"It returned {type(verdict).__name__} instead of a Verdict, so it was passed over.")
    problem = None
    candidates = tuple(_bounded(candidate) for candidate in verdict.candidates[:RECORDED])
    if verdict.outcome == "chosen":
        if verdict.agent is None:
            problem = "It chose without naming an agent, so it was passed over."
        elif verdict.agent not in request.eligible:
            problem = f"It chose {shortened(verdict.agent)}, who may not be chosen here, so it was passed over."
    elif verdict.outcome == "clarify":
        candidates = tuple(candidate for candidate in candidates if candidate.agent in request.eligible)
        if not candidates:
            problem = "It wanted to clarify without offering anybody who may be chosen, so it was passed over."
    changed: dict[str, object] = {
        "selector": selector,
        "confidence": _fraction(verdict.confidence),
        "reason": verdict.reason[:_REASON_CHARACTERS],
        "candidates": candidates,
        "passed_over": verdict.passed_over[:RECORDED],
        "ignored": verdict.ignored[:RECORDED],
    }
    if problem:
        changed |= {
            "outcome": "abstained",
            "agent": None,
            "method": None,
            "confidence": 0.0,
            "reason": problem,
            "position": None,
        }
    elif verdict.outcome == "chosen":
        changed["method"] = verdict.method or selector
    return verdict.model_copy(update=changed)


def _bounded(candidate: Candidate) -> Candidate:
    score = _fraction(candidate.score)
    return candidate if score == candidate.score else candidate.model_copy(update={"score": score})


def _fraction(number: float) -> float:
    return min(max(number, 0.0), 1.0) if math.isfinite(number) else 0.0


def ranked(request: SelectionRequest, stage: str | None, nobody: float) -> list[Candidate]:
    """What the last stage that ranked agents, or the one of that name, said of those who may be chosen, best first.

    Empty when it found that rather nobody should take the message.
    """
    for verdict in reversed([each for each in request.verdicts if stage in (None, each.selector)]):
        found = [each for each in verdict.candidates if each.agent in request.eligible]
        if found and (verdict.novelty or 0.0) > nobody:
            return []
        if found:
            return sorted(found, key=lambda each: -each.score)
    return []
