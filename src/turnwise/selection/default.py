"""Who answers when nobody else was found (behaviours A1, A5, C7)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen

CONFIDENCE = 0.6


class Default:
    """Chooses the given agent, else the lead of the team that asks, else the tree's root, else the first agent that may be
    chosen. It abstains only when there is none.
    """

    def __init__(self, agent: str | None = None, *, confidence: float = CONFIDENCE, name: str = "default") -> None:
        self.name = name
        self._agent = agent
        self._confidence = confidence

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._agent is None else (self._agent,)

    async def select(self, request: SelectionRequest) -> Verdict:
        agent = self.choice(request)
        if agent is None:
            return abstained(self.name, "No agent may be chosen.")
        reason = f"Nothing pointed to another agent, so {agent} takes it"
        wanted = self._agent or request.lead or request.tree.root
        reason += "." if agent == wanted else f": {wanted} may not be chosen."
        return chosen(self.name, agent, method="default_fallback", confidence=self._confidence, reason=reason)

    def choice(self, request: SelectionRequest) -> str | None:
        """Whom it would choose; None when there is nobody."""
        for agent in (self._agent, request.lead, request.tree.root):
            if agent is not None and agent in request.eligible:
                return agent
        return request.eligible[0] if request.eligible else None
