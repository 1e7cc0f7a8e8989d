"""Who has the next turn of a flow: the agent at work, else whom it named, else the strategy's choice (behaviour D3)."""

from collections.abc import Collection

from turnwise.facts.selections import Verdict
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.conversational import fitting
from turnwise.selection.verdicts import abstained, asked, chosen, shown

_AGENTS_SHOWN = 8


class TurnChoice:
    """One turn's choice among the pool, which is the request's `eligible`; it goes by its strategy's name and place in order.

    active: who had the last turn and did not end it; named: who was named as the next; both None when there is nobody. Who
    is not in the pool is not chosen, and that a name was passed over is recorded. Without a choice of the strategy it is
    the first of the pool, so only an empty pool gives an abstention.
    """

    def __init__(self, active: str | None, named: str | None, strategy: Selector) -> None:
        self._active, self._named, self._strategy = active, named, strategy

    @property
    def name(self) -> str:
        return self._strategy.name

    def settled(self, pool: Collection[str]) -> str | None:
        """Who it is whatever the strategy says; None when the strategy decides."""
        if self._active in pool:
            return self._active
        return fitting(self._named, pool) if self._named else None

    async def select(self, request: SelectionRequest) -> Verdict:
        pool = _pool(request)
        if not request.eligible:
            return abstained(self.name, "Nobody is in the pool.")
        ignored = self._ignored(request.eligible)
        agent = self.settled(request.eligible)
        if agent is not None:
            method, why = ("active", "is at work") if agent == self._active else ("named", "was named as the next")
            reason = f"{agent} {why}. {pool}"
            return chosen(self.name, agent, method=method, confidence=1.0, reason=reason, ignored=ignored)
        verdict = await asked(self._strategy, request, self.name)
        ignored = (*ignored, *verdict.ignored)
        if verdict.outcome == "chosen":
            reason = f"{verdict.reason} {pool}" if len(request.eligible) > 1 else _alone(request)
            return verdict.model_copy(update={"reason": reason, "ignored": ignored})
        agent = request.eligible[0]
        reason = f"{verdict.reason} So it is {agent}, the first of the pool. {pool}"
        return chosen(self.name, agent, method="first", confidence=1.0, reason=reason, ignored=ignored)

    def _ignored(self, pool: Collection[str]) -> tuple[str, ...]:
        if not self._named or self.settled(pool) is not None:
            return ()
        return (f"{shown(self._named)!r} was named as the next, and has no ready task",)


def _pool(request: SelectionRequest) -> str:
    """The pool in words: `In the pool: a (2 ready tasks), b (1 ready task).`, or that there is nobody else."""
    if len(request.eligible) == 1:
        return "Nobody else has a ready task."
    agents = [f"{name} ({_counted(request.tasks.get(name, 0))})" for name in request.eligible[:_AGENTS_SHOWN]]
    more = len(request.eligible) - len(agents)
    return f"In the pool: {', '.join(agents)}{f' and {more} more' if more else ''}."


def _alone(request: SelectionRequest) -> str:
    """Why it is the only one in the pool: whatever the strategy says of it, it had no choice."""
    agent = request.eligible[0]
    tasks = request.tasks.get(agent, 0)
    return f"Only {agent} has a ready task." if tasks < 2 else f"Only {agent} has ready tasks, {tasks} of them."


def _counted(tasks: int) -> str:
    return f"{tasks} ready task{'' if tasks == 1 else 's'}"
