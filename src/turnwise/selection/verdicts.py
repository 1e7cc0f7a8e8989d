"""Builds verdicts, and validates the verdicts of selectors, including custom ones."""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.ports.stopping import is_stopped

if TYPE_CHECKING:
    from turnwise.matching.spelling import Correction

MAX_RECORDED = 50
RECORDED_CANDIDATES = 5
"""Maximum number of candidates, passed-over authors and ignored things that a verdict stores."""
GUESS = "the encoder's guess"
"""The evidence of a candidate that is only good to ask the user about."""
SHOWN_CHARACTERS = 64
_REASON_CHARACTERS = 500
_log = logging.getLogger("turnwise.selection")
_MAX_CORRECTIONS_SHOWN = 3


def chosen(selector: str, agent: str, *, method: str, confidence: float, reason: str, **more: Any) -> Verdict:
    """Returns a verdict that chooses `agent`; `more` sets further fields."""
    return Verdict(
        selector=selector, outcome="chosen", agent=agent, method=method, confidence=confidence, reason=reason, **more
    )


def abstained(selector: str, reason: str, **more: Any) -> Verdict:
    """Returns a verdict that chooses no agent; `more` sets further fields."""
    return Verdict(selector=selector, reason=reason, **more)


def with_corrections(verdict: Verdict, corrections: "Sequence[Correction]") -> Verdict:
    """Returns the verdict with its spelling corrections added to the reason."""
    if not corrections:
        return verdict
    words = ", ".join(
        f"“{shortened(correction.typed)}” as “{shortened(correction.meant)}”"
        for correction in corrections[:_MAX_CORRECTIONS_SHOWN]
    )
    return verdict.replace(reason=f"{verdict.reason} It reads {words}.")


def shortened(text: str) -> str:
    """Shortens text from a user or agent to one printable line for the decision record."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return short if short.isprintable() else "".join(c if c.isprintable() else "�" for c in short)


async def run_selector(selector: Selector, request: SelectionRequest, name: str) -> Verdict:
    """Runs a selector and returns its checked verdict under `name`.

    An exception, a return value that is not a verdict, and an ineligible choice each become a recorded abstention.
    Cancellation of the calling task propagates.
    """
    task = asyncio.current_task()
    try:
        return checked_verdict(await selector.select(request), request, name)
    except BaseException as problem:
        if is_stopped(problem, task):
            raise
        # The exception's text may hold a secret or the user's words, so only its type is logged.
        _log.warning("The selector %r raised %s.", name, type(problem).__name__)
        return abstained(name, f"It raised {type(problem).__name__}, so it was passed over.")


def checked_verdict(verdict: object, request: SelectionRequest, selector: str) -> Verdict:
    """Validates a selector's return value and returns it under the selector's name.

    A verdict is valid when it chooses an eligible agent, offers eligible agents to clarify, or abstains. Any other value
    becomes an abstention with the cause. Confidences are clamped to 0–1; long lists and reasons are truncated.
    """
    if not isinstance(verdict, Verdict):
        return abstained(selector, f"It returned {type(verdict).__name__} instead of a Verdict, so it was passed over.")
    problem = None
    candidates = tuple(_bounded(candidate) for candidate in verdict.candidates[:MAX_RECORDED])
    if verdict.outcome == "chosen":
        if verdict.agent is None:
            problem = "It chose without naming an agent, so it was passed over."
        elif verdict.agent not in request.eligible:
            problem = f"It chose {shortened(verdict.agent)}, who may not be chosen here, so it was passed over."
    elif verdict.outcome == "clarify":
        candidates = tuple(candidate for candidate in candidates if candidate.agent in request.eligible)
        if not candidates:
            problem = "It wanted to clarify without offering anybody who may be chosen, so it was passed over."
    bounded = {
        "selector": selector,
        "confidence": _fraction(verdict.confidence),
        "reason": verdict.reason[:_REASON_CHARACTERS],
        "candidates": candidates,
        "passed_over": verdict.passed_over[:MAX_RECORDED],
        "ignored": verdict.ignored[:MAX_RECORDED],
    }
    if problem:
        return verdict.replace(
            **bounded | {"outcome": "abstained", "agent": None, "method": None, "confidence": 0.0, "reason": problem},
            position=None,
        )
    if verdict.outcome == "chosen":
        bounded["method"] = verdict.method or selector
    # Nearly every verdict is within all bounds, and to check its values again costs more than the rest of this function.
    changed = {name: value for name, value in bounded.items() if value != getattr(verdict, name)}
    return verdict.replace(**changed) if changed else verdict


def recorded(selection: Selection) -> Selection:
    """Returns a selection as it is recorded: each verdict with its best five candidates and their number.

    A clarifying verdict keeps all candidates, because they are the choices that the user got.
    """
    if not any(_is_long(verdict) for verdict in selection.verdicts):
        return selection
    return selection.replace(verdicts=tuple(map(_shortened_list, selection.verdicts)))


def _is_long(verdict: Verdict) -> bool:
    return verdict.outcome != "clarify" and len(verdict.candidates) > RECORDED_CANDIDATES


def _shortened_list(verdict: Verdict) -> Verdict:
    if not _is_long(verdict):
        return verdict
    best = verdict.candidates[:RECORDED_CANDIDATES]
    return verdict.replace(candidates=best, candidate_count=len(verdict.candidates))


def _bounded(candidate: Candidate) -> Candidate:
    score = _fraction(candidate.score)
    return candidate if score == candidate.score else candidate.replace(score=score)


def _fraction(number: float) -> float:
    return min(max(number, 0.0), 1.0) if math.isfinite(number) else 0.0


def ranked(request: SelectionRequest, stage: str | None, nobody: float) -> list[Candidate]:
    """Returns the eligible candidates of the most recent ranking in the request's verdicts, best first.

    Args:
        request: Its `verdicts` hold the results of earlier stages.
        stage: Name of the stage to read; None = the last stage with eligible candidates.
        nobody: Novelty limit. The list is empty when that ranking's novelty is higher.
    """
    for verdict in reversed([each for each in request.verdicts if stage in (None, each.selector)]):
        found = [each for each in verdict.candidates if each.agent in request.eligible]
        if found and (verdict.novelty or 0.0) > nobody:
            return []
        if found:
            return sorted(found, key=lambda each: -each.score)
    return []
