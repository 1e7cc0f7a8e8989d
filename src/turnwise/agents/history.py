"""The log as the agent's model is to read it, at every step anew."""

from collections.abc import Sequence

from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext
from turnwise.transcript.compile import reaches_far_enough
from turnwise.transcript.sizes import tokens_of_parts
from turnwise.transcript.view import Budget, View

NEWS, PAGE = 10, 40
"""How many events are read at a time: when only what is new is looked for, and at most."""
_SHORT_EVENT = 20
"""Tokens. A budget of so many times that is filled by as many events, mostly by fewer: more need not be read at first."""

_MORE = 1.5
"""How many times as much is read before it is asked again whether that is enough."""


class HistoryReader:
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
        pages: list[Sequence[Event]] = []
        read, tokens, look_at, has_summary = 0, 0, 1, False
        async for page in self._history.backwards(page_events):
            pages.append(page)
            read += len(page)
            tokens += _tokens(page)
            has_summary = has_summary or any(event.actions.summary is not None for event in page)
            may_do = has_summary or tokens >= self._budget.tokens or read >= self._budget.events
            if read < look_at or not may_do:
                continue
            self._events = _in_order(pages)
            if reaches_far_enough(self._events, self.view, self._budget):
                return
            # All that was read is looked at again: rarer and rarer, so that the cost stays linear in the history.
            look_at = int(read * _MORE) + 1
        self._events = _in_order(pages)

    async def _go_on(self) -> None:
        last = self._events[-1].sequence or 0
        new: list[Event] = []
        async for page in self._history.backwards(NEWS):
            new = [*(event for event in page if (event.sequence or 0) > last), *new]
            if page and (page[0].sequence or 0) <= last:
                break
        self._events += new


def _tokens(page: Sequence[Event]) -> int:
    """What the page takes at most, but for what stands around others' words: a budget that this does not fill is not full."""
    return sum(tokens_of_parts(event.content.parts) for event in page if event.content is not None)


def _in_order(pages: Sequence[Sequence[Event]]) -> list[Event]:
    """The events of pages that were read from the newest to the oldest, oldest first."""
    return [event for page in reversed(pages) for event in page]
