"""A selector's verdict inside an invocation, as it is put on record. Pure."""

from pydantic import JsonValue

from turnwise.facts.selections import Selection, Verdict
from turnwise.ports.selector import SelectionRequest

_DECIDED = {"selector", "outcome", "agent", "method", "confidence", "reason"}


def decided(verdict: Verdict) -> JsonValue:
    """The verdict as the value of a step: what an agent that runs again needs of it."""
    return verdict.model_dump(mode="json", include=_DECIDED)


def decision_of(verdict: Verdict, request: SelectionRequest, lead: str) -> Selection:
    """The decision that the verdict is; for `lead` when it chose nobody."""
    return Selection(
        agent=verdict.agent or lead,
        method=verdict.method or verdict.selector,
        confidence=verdict.confidence,
        reason=verdict.reason,
        occasion=request.occasion,
        verdicts=(verdict,),
        policy=verdict.selector,
        tree_version=request.tree.version,
    )
