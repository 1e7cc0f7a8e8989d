"""Always the lead (behaviours B1, B2)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen


def lead_of(lead: str | None, request: SelectionRequest) -> str | None:
    """The lead, if it may be chosen; without one the tree's root, else the first who may. None when there is nobody."""
    if lead is not None:
        return lead if lead in request.eligible else None
    if request.tree.root in request.eligible:
        return request.tree.root
    return request.eligible[0] if request.eligible else None


class Identity:
    """Chooses its lead, whatever is said. Without a lead of its own: the tree's root, or the first of a team."""

    def __init__(self, lead: str | None = None, *, name: str = "identity") -> None:
        self.name = name
        self._lead = lead

    async def select(self, request: SelectionRequest) -> Verdict:
        lead = lead_of(self._lead, request)
        if lead is None:
            return abstained(self.name, f"The lead {self._lead or request.tree.root} may not be chosen.")
        return chosen(self.name, lead, method="identity", confidence=1.0, reason=f"{lead} is the lead and takes everything.")
