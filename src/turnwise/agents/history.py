"""Reads the session log for an agent's model, again at every step."""

from collections.abc import Sequence

from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext
from turnwise.transcript.compile import reaches_far_enough
from turnwise.transcript.view import Budget, View, tokens_of_parts

NEWS, PAGE = 10, 40
"""The page sizes in events: to read only new events, and the largest page."""
_SHORT_EVENT = 20
"""Tokens of a short event. The first page holds `budget / _SHORT_EVENT` events, since most events are longer."""

_MORE = 1.5
"""The factor by which more events are read before the next check whether they are enough."""


class HistoryReader:
    """Reads the log backwards: first until the budget is filled, later only the new events."""

    def __init__(self, context: AgentContext, budget: Budget) -> None:
        blank = context.event()
        assignment = context.assignment
        scopes, giver = (assignment.scope.sees, assignment.giver) if assignment is not None else (None, None)
        self.view = View(blank.author, blank.branch, blank.invocation_id, scopes, giver)
        self._history, self._budget = context.history, budget
        self._events: list[Event] = []

    async def events(self) -> Sequence[Event]:
        """Returns the events that may matter, oldest first, up to the end of the log."""
        if self._events:
            await self._read_new()
        else:
            await self._read_first()
        return self._events

    async def _read_first(self) -> None:
        page_events = min(PAGE, max(NEWS, self._budget.tokens // _SHORT_EVENT))
        pages: list[Sequence[Event]] = []
        event_count, tokens, next_check, has_summary = 0, 0, 1, False
        async for page in self._history.backwards(page_events):
            pages.append(page)
            event_count += len(page)
            tokens += _tokens(page)
            has_summary = has_summary or any(event.actions.summary is not None for event in page)
            may_suffice = has_summary or tokens >= self._budget.tokens or event_count >= self._budget.events
            if event_count < next_check or not may_suffice:
                continue
            self._events = _in_order(pages)
            if reaches_far_enough(self._events, self.view, self._budget):
                return
            # Each check scans all events, so checks become rarer and the total cost stays linear.
            next_check = int(event_count * _MORE) + 1
        self._events = _in_order(pages)

    async def _read_new(self) -> None:
        last = self._events[-1].sequence or 0
        new: list[Event] = []
        async for page in self._history.backwards(NEWS):
            new = [*(event for event in page if (event.sequence or 0) > last), *new]
            if page and (page[0].sequence or 0) <= last:
                break
        self._events += new


def _tokens(page: Sequence[Event]) -> int:
    """Returns the most tokens that the page's content takes, without the marks around other agents' words.

    A budget that this does not fill is certainly not full.
    """
    return sum(tokens_of_parts(event.content.parts) for event in page if event.content is not None)


def _in_order(pages: Sequence[Sequence[Event]]) -> list[Event]:
    """Returns the events of pages read newest first, oldest first."""
    return [event for page in reversed(pages) for event in page]
