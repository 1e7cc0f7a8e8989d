"""The log as the agent's model is to read it, at every step anew."""

from collections.abc import Sequence

from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext
from turnwise.transcript.compile import reaches_far_enough
from turnwise.transcript.view import Budget, View

NEWS, PAGE = 10, 40
"""How many events are read at a time: when only what is new is looked for, and at most."""
_SHORT_EVENT = 20
"""Tokens. A budget of so many times that is filled by as many events, mostly by fewer: more need not be read at first."""


class LogReader:
    """Reads backwards: at first as far as matters, later as far as it has read before."""

    def __init__(self, context: AgentContext, budget: Budget) -> None:
        blank = context.event()
        part = context.assignment
        scopes, giver = (part.scope.sees, part.giver) if part is not None else (None, None)
        self.view = View(blank.author, blank.branch, blank.invocation_id, scopes, giver)
        self._history, self._budget = context.history, budget
        self._events: list[Event] = []

    async def events(self) -> Sequence[Event]:
        """The events that may matter, oldest first, to the end of the log."""
        if self._events:
            await self._go_on()
        else:
            await self._begin()
        return self._events

    async def _begin(self) -> None:
        page_events = min(PAGE, max(NEWS, self._budget.tokens // _SHORT_EVENT))
        async for page in self._history.backwards(page_events):
            self._events = [*page, *self._events]
            if self._events and reaches_far_enough(self._events, self.view, self._budget):
                return

    async def _go_on(self) -> None:
        last = self._events[-1].sequence or 0
        new: list[Event] = []
        async for page in self._history.backwards(NEWS):
            new = [*(event for event in page if (event.sequence or 0) > last), *new]
            if page and (page[0].sequence or 0) <= last:
                break
        self._events += new
