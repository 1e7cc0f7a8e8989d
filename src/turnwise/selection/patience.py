"""An open question keeps its answer, unless another selector is sure that the message is something new (behaviour C9)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.resume import open_question
from turnwise.selection.verdicts import abstained

AWAITED = 0.9


class Patient:
    """Another selector, whose choice counts against an agent that waits for a reply only with at least this confidence."""

    def __init__(self, selector: Selector, *, awaited: float = AWAITED) -> None:
        self._selector, self._awaited = selector, awaited

    @property
    def name(self) -> str:
        return self._selector.name

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that the other selector was given by name."""
        return tuple(getattr(self._selector, "named_agents", ()))

    async def select(self, request: SelectionRequest) -> Verdict:
        verdict = await self._selector.select(request)
        question = open_question(request)
        if question is None or verdict.agent in (None, question.agent) or verdict.confidence >= self._awaited:
            return verdict
        if question.agent not in request.eligible:
            return verdict
        reason = f"{question.agent} waits for a reply, and {verdict.agent} is not sure enough: {verdict.confidence:.2f}."
        return abstained(
            verdict.selector, reason, confidence=verdict.confidence, candidates=verdict.candidates, novelty=verdict.novelty
        )
