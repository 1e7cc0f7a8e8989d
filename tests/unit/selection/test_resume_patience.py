"""An open question keeps its answer (C9)."""

from dataclasses import replace

import pytest

from turnwise.facts.events import Await
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenInvocation
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.resume import HoldOpenQuestion
from turnwise.testing.selector_suite import request_for, sample_tree

TREE = sample_tree()
WAITS = OpenInvocation(agent="returns", state="waiting", began=3, last=4, waits=(("returns", Await(id="w")),))
ASKED = Head(authors={"returns": AuthorMark(spoke=4)}, active_agent="returns", invocations={"i": WAITS})


class Sure:
    """Chooses an agent with a confidence."""

    name = "sure"

    def __init__(self, agent: str | None, confidence: float) -> None:
        self._agent, self._confidence = agent, confidence

    async def select(self, request: SelectionRequest) -> Verdict:
        candidates = (Candidate(agent="orders", score=self._confidence),)
        if self._agent is None:
            return Verdict(selector="sure", reason="No.", candidates=candidates, novelty=0.7)
        return Verdict(
            selector="sure",
            outcome="chosen",
            agent=self._agent,
            method="m",
            confidence=self._confidence,
            reason="r",
            candidates=candidates,
            novelty=0.1,
        )


@pytest.mark.parametrize(
    ("agent", "confidence", "kept"),
    [("orders", 0.95, "orders"), ("orders", 0.89, None), ("returns", 0.1, "returns"), (None, 0.1, None)],
)
async def test_another_agent_must_be_plainly_meant(agent: str | None, confidence: float, kept: str | None) -> None:
    """C9"""
    verdict = await HoldOpenQuestion(Sure(agent, confidence)).select(request_for(TREE, "x", head=ASKED))
    assert verdict.agent == kept
    assert (verdict.candidates, verdict.novelty) == ((Candidate(agent="orders", score=confidence),), 0.1 if agent else 0.7)
    if agent == "orders" and kept is None:
        assert verdict.reason == "returns waits for a reply, and orders is not sure enough: 0.89."


async def test_without_an_open_question_nothing_changes() -> None:
    """C9: nor once somebody else has been preferred since, or the asker may not be chosen."""
    patient = HoldOpenQuestion(Sure("orders", 0.2), awaited=0.9)
    assert patient.name == "sure"
    since = ASKED.replace(authors={**ASKED.authors, "orders": AuthorMark(spoke=9)})
    for request in (
        request_for(TREE, "x"),
        request_for(TREE, "x", head=since),
        replace(request_for(TREE, "x", head=ASKED), eligible=("root", "orders")),
    ):
        assert (await patient.select(request)).agent == "orders"
