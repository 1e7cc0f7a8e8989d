"""The log as the reader may see it: what is hidden from it is gone, and every tool call knows its result."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnwise.facts.content import ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Event, in_scope, sees
from turnwise.facts.sessions import visible
from turnwise.transcript.view import View

ASKS_LEAVE = "confirm"
"""The tool by which an agent's loop asks a person for leave."""


class LoggedCall:
    """A tool call of the log, and what became of it. place: of its event; ended: of the event with its result."""

    __slots__ = ("awaited", "ended", "part", "place", "result")

    def __init__(self, part: ToolCallPart, place: int) -> None:
        self.part, self.place = part, place
        self.result: ToolResultPart | None = None
        self.ended = place
        self.awaited = False


class VisibleLog(NamedTuple):
    """What the reader sees. Places are indices of `events`, which are in append order, without what it can never see.

    order: the places in the order they are shown: what belongs to this invocation comes last, from the index `current` on,
    also if another one ran while it waited. calls: by place, the calls to show. aside: by the place of an event with calls,
    where the reader said something while they ran; those places are not in the order. begun: whether the beginning of this
    invocation is among the events. torn: the last place at which something depends on an event before all of these, if any
    does. summarized: the place of the reader's last summary.
    """

    events: Sequence[Event]
    order: Sequence[int]
    current: int
    calls: Mapping[int, Sequence[LoggedCall]]
    aside: Mapping[int, Sequence[int]]
    begun: bool
    torn: int | None
    summarized: int | None


def visible_log(events: Sequence[Event], view: View) -> VisibleLog:
    """The events, oldest first, as that view sees them."""
    eyes, book = _Visibility(view), _CallBook(view.agent)
    standing = [event for event in _standing(events) if eyes.reach(event)]
    earlier: list[int] = []
    current: list[int] = []
    summarized: int | None = None
    for place, event in enumerate(standing):
        seen = eyes.see(event)
        book.enter(event, place, seen)
        if seen and event.actions.summary is not None and event.author == view.agent:
            summarized = place
        if seen and (event.content is not None or event.actions.brief is not None):
            (current if event.invocation_id == view.invocation_id else earlier).append(place)
    calls = book.closed()
    aside = _aside(standing, (*earlier, *current), calls, view) if calls else {}
    beside = {place for places in aside.values() for place in places}
    earlier = [place for place in earlier if place not in beside]
    current = [place for place in current if place not in beside]
    begun = view.invocation_id in book.begun
    return VisibleLog(standing, [*earlier, *current], len(earlier), calls, aside, begun, book.torn(), summarized)


def _standing(events: Sequence[Event]) -> list[Event]:
    """What was stored and not taken back."""
    stored = [event for event in events if not event.partial]
    taken_back = any([event.actions.rewind is not None for event in stored])  # noqa: C419 - a list is faster here
    return visible(stored) if taken_back else stored


class _Visibility:
    """What of a log a view can see at all, which is what an agent's history holds, and what of that it is shown."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._branches: dict[str, bool] = {}

    def see(self, event: Event) -> bool:
        if event.error is not None:
            return False
        return in_scope(event, self._view.agent, self._view.scopes)

    def reach(self, event: Event) -> bool:
        if event.invocation_id != self._view.invocation_id:
            return not event.is_private
        known = self._branches.get(event.branch)
        if known is None:
            known = self._branches[event.branch] = sees(self._view.branch, event.branch)
        return known


class _CallBook:
    """Calls and results as they come: a result belongs to the last call before it with its id, by its author, in its
    invocation; one from the user to anybody's. Results without a call are dropped.
    """

    def __init__(self, reader: str) -> None:
        self._reader = reader
        self._calls: dict[tuple[str, str, str], tuple[LoggedCall, bool]] = {}
        self._shown: dict[int, list[LoggedCall]] = {}
        self._waits: set[tuple[str, str, str]] = set()
        self._ended: set[str] = set()
        self._lost: list[tuple[str, int]] = []
        self._keys: list[tuple[LoggedCall, str, str]] = []
        self.begun: set[str] = set()

    def enter(self, event: Event, place: int, seen: bool) -> None:
        actions, content, invocation = event.actions, event.content, event.invocation_id
        if actions.awaits is not None and actions.awaits.kind == "tool_result":
            self._waits.add((invocation, actions.awaits.id, event.author))
        if actions.end is not None:
            self._ended.add(invocation)
        if event.author == USER and _begins(event):
            self.begun.add(invocation)
        for part in content.parts if content is not None else ():
            if isinstance(part, ToolCallPart):
                self._call(event, place, part, seen)
            elif isinstance(part, ToolResultPart) and seen:
                self._result(event, place, part)

    def _call(self, event: Event, place: int, part: ToolCallPart, seen: bool) -> None:
        if event.author == USER:
            return
        call, invocation = LoggedCall(part, place), event.invocation_id
        about = _asks_leave_for(part, event)
        if about is not None:
            self._waits.add((invocation, about, event.author))
        hidden = not seen or about is not None or (part.private and event.author != self._reader)
        for whose in (event.author, USER):
            self._calls[invocation, part.call_id, whose] = call, hidden
        if not hidden:
            self._shown.setdefault(place, []).append(call)
            self._keys.append((call, invocation, event.author))

    def _result(self, event: Event, place: int, part: ToolResultPart) -> None:
        found = self._calls.get((event.invocation_id, part.call_id, event.author))
        if found is None:
            if event.author in (USER, self._reader):
                self._lost.append((event.invocation_id, place))
        elif not found[1]:
            found[0].result, found[0].ended = part, place

    def closed(self) -> dict[int, list[LoggedCall]]:
        """The calls to show, by place, once all is entered."""
        for call, invocation, author in self._keys:
            waits = call.result is None and (invocation, call.part.call_id, author) in self._waits
            call.awaited = waits and invocation not in self._ended
        return self._shown

    def torn(self) -> int | None:
        """The last place of a result whose call may stand before all that was entered."""
        return max((place for invocation, place in self._lost if invocation not in self.begun), default=None)


def question_of(event: Event) -> ToolCallPart | None:
    """The question by which a person is asked for leave in this event; None when it asks none."""
    if event.actions.awaits is None or event.content is None:
        return None
    return next((part for part in event.content.tool_calls if _asks_leave_for(part, event) is not None), None)


def _asks_leave_for(part: ToolCallPart, event: Event) -> str | None:
    """The id of the call that a person is asked about; None when this is no such question, but a tool of that name.

    No model sees a question or its answer: the agent's loop, which alone can await it with the call itself, reacts to them.
    """
    about, awaits = part.arguments.get("call"), event.actions.awaits
    if part.tool != ASKS_LEAVE or not part.private or not isinstance(about, str):
        return None
    is_question = isinstance(part.arguments.get("tool"), str) and awaits is not None and awaits.id == part.call_id
    return about if is_question else None


def _begins(event: Event) -> bool:
    actions = event.actions
    continues = actions.answers is not None or (event.content is not None and event.content.tool_results)
    return actions.selection is not None and not continues


def _aside(
    events: Sequence[Event], places: Sequence[int], calls: Mapping[int, Sequence[LoggedCall]], view: View
) -> dict[int, list[int]]:
    """What the reader said between its calls and their last result: it belongs before the calls, which stand with their
    results.
    """
    open_: dict[tuple[str, str], tuple[int, int]] = {}
    aside: dict[int, list[int]] = {}
    for place in places:
        event = events[place]
        if event.author != view.agent:
            continue
        run = event.invocation_id, event.branch
        base, until = open_.get(run, (place, place))
        if place in calls:
            ended = max(call.ended for call in calls[place])
            if ended >= until or place >= until:
                open_[run] = place, ended
        elif place < until:
            aside.setdefault(base, []).append(place)
    return aside
