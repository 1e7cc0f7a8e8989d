"""A decision, for readers and for programs."""

from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict
from turnwise.gateway.mcp.tool_calls import decision_text, decision_value

SELECTION = Selection(
    agent="orders",
    method="strong_intent_match",
    confidence=0.8,
    reason="It matches.",
    verdicts=(
        Verdict(selector="direct", reason="Nobody was named."),
        Verdict(
            selector="patterns",
            outcome="chosen",
            agent="orders",
            method="strong_intent_match",
            confidence=0.8,
            reason="It matches.",
            candidates=(Candidate(agent="orders", score=0.8, evidence="order"),),
        ),
    ),
    excluded=(Exclusion(agent="office", rule="roles"),),
)


def test_for_readers() -> None:
    assert decision_text(decision_value(SELECTION, "s")).splitlines() == [
        "orders answers (strong_intent_match, 0.80): It matches.",
        "- direct: abstained. Nobody was named.",
        "- patterns: chosen orders. It matches.",
    ]
    asks = SELECTION.replace(outcome="clarify", verdicts=())
    assert decision_text(decision_value(asks, None)).startswith("orders asks what is meant (")


def test_for_programs() -> None:
    told = decision_value(SELECTION, "s").model_dump(exclude_none=True)
    assert (told["session"], told["agent"], told["outcome"]) == ("s", "orders", "chosen")
    assert told["opinions"][1]["candidates"] == [{"agent": "orders", "score": 0.8, "evidence": "order"}]
    assert told["excluded"] == [{"agent": "office", "rule": "roles", "detail": ""}]
    assert "session" not in decision_value(SELECTION, None).model_dump(exclude_none=True)
