"""One after the other, in a fixed order (behaviour B3)."""

from collections.abc import Sequence

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Exclusion, Verdict
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen


class Iterative:
    """Cycles through its order. Its place comes with the request and goes back with the verdict: it keeps none itself.

    Who may not be chosen now is passed over and recorded. PolicyError when the order is empty.
    """

    def __init__(self, order: Sequence[str], *, name: str = "iterative") -> None:
        if not order:
            raise PolicyError(f"The selector {name!r} has an empty order.", fix="Name at least one agent in `order`.")
        self.name = name
        self._order = tuple(order)

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return self._order

    async def select(self, request: SelectionRequest) -> Verdict:
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
