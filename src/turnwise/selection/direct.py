"""The agent the caller names (behaviour C1)."""

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen, shown


class Direct:
    """Chooses `context.direct_agent_id`. A name that does not exist or may not be chosen is ignored, and that is recorded."""

    def __init__(self, *, name: str = "direct") -> None:
        self.name = name

    async def select(self, request: SelectionRequest) -> Verdict:
        wanted = request.context.direct_agent_id
        if wanted is None or request.occasion != "message":
            return abstained(self.name, "The caller named no agent.")
        if wanted in request.eligible:
            reason = f"The caller named {wanted}."
            return chosen(self.name, wanted, method="direct_routing", confidence=1.0, reason=reason)
        if wanted not in request.tree:
            ignored = f"direct_agent_id {shown(wanted)!r}: no agent has that name"
        else:
            details = (exclusion.detail for exclusion in request.excluded if exclusion.agent == wanted)
            ignored = f"direct_agent_id {wanted!r}: {next(details, 'it may not be chosen here')}"
        return abstained(self.name, "The agent that the caller named cannot be chosen.", ignored=(ignored,))
