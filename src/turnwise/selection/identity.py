"""Always the lead (behaviours B1, B2)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen


def lead_of(lead: str | None, request: SelectionRequest) -> str | None:
    """The selector's own lead, else that of the team that asks, if it may be chosen; None when it may not.

    Without either: the tree's root, else the first agent that may be chosen, None when there is none.
    """
    lead = lead or request.lead
    if lead is not None:
        return lead if lead in request.eligible else None
    if request.tree.root in request.eligible:
        return request.tree.root
    return request.eligible[0] if request.eligible else None


class Identity:
    """Chooses its lead, whatever is said. Without a lead of its own: the lead of the team that asks, or the tree's root."""

    def __init__(self, lead: str | None = None, *, name: str = "identity") -> None:
        self.name = name
        self._lead = lead

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._lead is None else (self._lead,)

    async def select(self, request: SelectionRequest) -> Verdict:
        lead = lead_of(self._lead, request)
        if lead is None:
            missing = self._lead or request.lead or request.tree.root
            return abstained(self.name, f"The lead {missing} may not be chosen.")
        return chosen(self.name, lead, method="identity", confidence=1.0, reason=f"{lead} is the lead and takes everything.")
