"""Selects the agent for small talk: messages that are conversation, not requests (behaviours C6, C8)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.meaning import Meaning
from turnwise.selection.verdicts import abstained, chosen

THRESHOLD = 0.5
CONFIDENCE = 0.7


class SmallTalkSelector:
    """Chooses `agent` when the probability of small talk is above `threshold`.

    It judges the whole message: a greeting followed by a request is not small talk. The confidence is always 0.7 (C6).

    Args:
        meaning: Reads the message.
        agent: None = the asking team's lead, or the tree's root.
        threshold: The probability must be above this.
        name: The stage's name.
    """

    def __init__(
        self, meaning: Meaning, *, agent: str | None = None, threshold: float = THRESHOLD, name: str = "smalltalk"
    ) -> None:
        self.name = name
        self._meaning, self._agent, self._threshold = meaning, agent, threshold

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
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
