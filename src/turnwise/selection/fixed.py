"""Selectors with a fixed choice: `Default`, `Direct`, `Identity` and `Iterative` (behaviours A1, A5, C7)."""

from collections.abc import Sequence

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Exclusion, Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen, shortened

CONFIDENCE = 0.6
"""Confidence of a default choice."""


class Default:
    """Chooses the configured agent, else the asking team's lead, else the tree's root, else the first eligible agent.

    Abstains only when no agent is eligible.
    """

    def __init__(self, agent: str | None = None, *, confidence: float = CONFIDENCE, name: str = "default") -> None:
        self.name = name
        self._agent = agent
        self._confidence = confidence

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return () if self._agent is None else (self._agent,)

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the default agent, or the nearest agent to it that may be chosen."""
        agent = self.choice(request)
        if agent is None:
            return abstained(self.name, "No agent may be chosen.")
        reason = f"Nothing pointed to another agent, so {agent} takes it"
        wanted = self._agent or request.lead or request.tree.root
        reason += "." if agent == wanted else f": {wanted} may not be chosen."
        return chosen(self.name, agent, method="default_fallback", confidence=self._confidence, reason=reason)

    def choice(self, request: SelectionRequest) -> str | None:
        """Returns the agent it would choose; None when no agent is eligible."""
        for agent in (self._agent, request.lead, request.tree.root):
            if agent is not None and agent in request.eligible:
                return agent
        return request.eligible[0] if request.eligible else None


class Direct:
    """Chooses `context.direct_agent_id`. An unknown or ineligible name is ignored, and the verdict records it."""

    def __init__(self, *, name: str = "direct") -> None:
        self.name = name

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent that the caller named; abstains if it named none, or one that may not be chosen."""
        wanted = request.context.direct_agent_id
        if wanted is None or request.occasion != "message":
            return abstained(self.name, "The caller named no agent.")
        if wanted in request.eligible:
            reason = f"The caller named {wanted}."
            return chosen(self.name, wanted, method="direct_routing", confidence=1.0, reason=reason)
        if wanted not in request.tree:
            ignored = f"direct_agent_id {shortened(wanted)!r}: no agent has that name"
        else:
            details = (exclusion.detail for exclusion in request.excluded if exclusion.agent == wanted)
            ignored = f"direct_agent_id {wanted!r}: {next(details, 'it may not be chosen here')}"
        return abstained(self.name, "The agent that the caller named cannot be chosen.", ignored=(ignored,))


def lead_of(lead: str | None, request: SelectionRequest) -> str | None:
    """Returns the lead: the configured one, else the asking team's; None when that agent is not eligible.

    Without either, returns the tree's root if eligible, else the first eligible agent, else None.
    """
    lead = lead or request.lead
    if lead is not None:
        return lead if lead in request.eligible else None
    if request.tree.root in request.eligible:
        return request.tree.root
    return request.eligible[0] if request.eligible else None


class Identity:
    """Always chooses its lead. Without a configured lead, it uses the asking team's lead or the tree's root."""

    def __init__(self, lead: str | None = None, *, name: str = "identity") -> None:
        self.name = name
        self._lead = lead

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return () if self._lead is None else (self._lead,)

    async def select(self, request: SelectionRequest) -> Verdict:
        lead = lead_of(self._lead, request)
        if lead is None:
            missing = self._lead or request.lead or request.tree.root
            return abstained(self.name, f"The lead {missing} may not be chosen.")
        return chosen(self.name, lead, method="identity", confidence=1.0, reason=f"{lead} is the lead and takes everything.")


class Iterative:
    """Cycles through a fixed order of agents.

    The current position comes with the request and the next one goes back in the verdict; the selector stores no state.
    Ineligible agents are skipped and recorded. Raises PolicyError when the order is empty.
    """

    def __init__(self, order: Sequence[str], *, name: str = "iterative") -> None:
        if not order:
            raise PolicyError(f"The selector {name!r} has an empty order.", fix="Name at least one agent in `order`.")
        self.name = name
        self._order = tuple(order)

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return self._order

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the next eligible agent in the order, and moves the position past it."""
        size = len(self._order)
        start = request.positions.get(self.name, 0)
        passed_over: list[Exclusion] = []
        for place in range(start, start + size):
            agent = self._order[place % size]
            if agent in request.eligible:
                return chosen(
                    self.name,
                    agent,
                    method="iterative",
                    confidence=1.0,
                    reason=f"It is the turn of {agent}, number {place % size + 1} of {size} in the order.",
                    passed_over=tuple(passed_over),
                    position=(place + 1) % size,
                )
            passed_over.append(Exclusion(agent=agent, rule="not_eligible", detail="it may not be chosen here"))
        return abstained(self.name, "Nobody in the order may be chosen.", passed_over=tuple(passed_over))
