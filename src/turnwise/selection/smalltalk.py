"""Who answers when the message is conversation and no request (behaviours C6, C8)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.meaning import Meaning
from turnwise.selection.verdicts import abstained, chosen

THRESHOLD = 0.5
CONFIDENCE = 0.7


class SmallTalkSelector:
    """Chooses `agent` when the message is more likely small talk than `threshold`.

    agent: None = the lead of the team that asks, or the tree's root.

    It judges the whole message: a greeting in front of a request is none. The confidence is always 0.7 (C6).
    """

    def __init__(
        self, meaning: Meaning, *, agent: str | None = None, threshold: float = THRESHOLD, name: str = "smalltalk"
    ) -> None:
        self.name = name
        self._meaning, self._agent, self._threshold = meaning, agent, threshold

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._agent is None else (self._agent,)

    async def select(self, request: SelectionRequest) -> Verdict:
        if request.occasion == "answer":
            return abstained(self.name, "Small talk is looked for in messages, not in answers.")
        if not request.text.strip():
            return abstained(self.name, "The message has no text.")
        agent = self._agent or request.lead or request.tree.root
        if agent not in request.eligible:
            return abstained(self.name, f"{agent}, who would answer small talk, may not be chosen here.")
        (reading,) = await self._meaning.read([request.text])
        if reading.smalltalk <= self._threshold:
            return abstained(
                self.name,
                f"The message reads as a request: small talk with probability {reading.smalltalk:.2f}, "
                f"not above {self._threshold:g}.",
            )
        return chosen(
            self.name,
            agent,
            method="conversational_fallback",
            confidence=CONFIDENCE,
            reason=f"The message is small talk with probability {reading.smalltalk:.2f}, so {agent} answers.",
        )
