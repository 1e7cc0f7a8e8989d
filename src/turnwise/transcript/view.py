"""The reader of a transcript, its budget, and the part of the log that it sees, with every tool call matched to its result."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import NO_BRANCH, USER, Branch, Event, in_scope
from turnwise.facts.fact import values_of
from turnwise.facts.sessions import visible
from turnwise.facts.waits import is_approval


@dataclass(frozen=True, slots=True)
class View:
    """The agent run that reads the log: `agent` on `branch` of the invocation."""

    agent: str
    branch: Branch
    invocation_id: str
    scopes: frozenset[str] | None = None
    """The labels that the reader works on; None means all. An event of another agent is hidden if it has labels, none of
    which is among these or below them (behaviour D7).
    """
    giver: str | None = None
    """The author of the run's opening when the log does not hold it; None for the user or the caller."""
    calls_as_text: bool = False
    """True to show the reader's own calls and results as text, for a model without tools."""

    def __post_init__(self) -> None:
        # Callers may give the branch as text, as it stands in an event's JSON.
        if not isinstance(self.branch, Branch):
            object.__setattr__(self, "branch", Branch(self.branch))


class Budget(NamedTuple):
    """The maximum size of a transcript."""

    tokens: int
    """Tokens, as estimated by `transcript.sizes`."""
    events: int
    """The number of events."""


PART_TOKENS = 4
"""The tokens of a part besides its text, with its share of the message's overhead."""
CALL_TOKENS = 30
"""The tokens of the ids and the structure of a tool call or a result."""
FILE_TOKENS = 2_000
"""The tokens of a file that is no text: slightly more than the most expensive image."""


def tokens_of(text: str) -> int:
    """Returns one token per three characters, plus two thirds for each further UTF-8 byte of a character.

    English needs about one token per four characters, code and JSON one per three. Cyrillic counts as 1 per character,
    Chinese and Japanese as 1.7, emoji as 2.3. That is more than current tokenizers need.
    """
    characters = len(text)
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - characters
    return (characters + 2 * further + 2) // 3


def tokens_of_part(part: Part) -> int:
    """Returns the estimate for one part."""
    if type(part) is TextPart:  # the usual case, and there may be thousands
        text = values_of(part)["text"]
        return PART_TOKENS + ((len(text) + 2) // 3 if text.isascii() else tokens_of(text))
    if isinstance(part, TextPart | ThinkingPart):
        return PART_TOKENS + tokens_of(part.text)
    if isinstance(part, ToolResultPart):
        return PART_TOKENS + CALL_TOKENS + tokens_of(part.tool) + tokens_of(as_text(part.result))
    if isinstance(part, ToolCallPart):
        written = as_text(part.arguments) if part.raw is None else part.raw
        return PART_TOKENS + CALL_TOKENS + tokens_of(part.tool) + tokens_of(written)
    if isinstance(part, BlobPart):
        return PART_TOKENS + FILE_TOKENS
    return PART_TOKENS


def tokens_of_parts(parts: Iterable[Part]) -> int:
    """Returns the estimate for several parts."""
    return sum(map(tokens_of_part, parts))


def as_text(value: JsonValue) -> str:
    """Returns a value as a model reads it: text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return to_json(value).decode()
    except ValueError:  # a text that UTF-8 cannot encode
        return json.dumps(value)


class LoggedCall:
    """A tool call of the log and its result."""

    __slots__ = ("awaited", "ended", "part", "place", "result")

    def __init__(self, part: ToolCallPart, place: int) -> None:
        self.part, self.place = part, place
        self.result: ToolResultPart | None = None
        self.ended = place
        """The index of the event with the result."""
        self.awaited = False
        """True if the result is still to come."""


@dataclass(frozen=True, slots=True)
class VisibleLog:
    """The events that the reader may see, in append order. Places are indices of `events`."""

    events: Sequence[Event]
    order: Sequence[int]
    """The places in display order: this invocation comes last, even if another one ran while it waited."""
    current: int
    """The index in `order` at which this invocation begins."""
    calls: Mapping[int, Sequence[LoggedCall]]
    """The calls to show, by place."""
    interleaved: Mapping[int, Sequence[int]]
    """Places of the reader's texts that arose while its calls ran, by the place of the event with the calls. They are not in
    `order`.
    """
    begun: bool
    """True if the beginning of this invocation is among the events."""
    dangling: int | None
    """The last place that depends on an event before all of these; None when there is none."""
    summarized: int | None
    """The place of the reader's last summary."""


def visible_log(events: Sequence[Event], view: View) -> VisibleLog:
    """Returns the events as that view sees them.

    Args:
        events: The events, oldest first.
        view: The reader.
    """
    remaining = _reachable(not_rewound(events), view)
    matcher = _CallMatcher(view.agent, remaining)
    earlier: list[int] = []
    current: list[int] = []
    summarized: int | None = None
    for place, event in enumerate(remaining):
        seen = event.error is None and (view.scopes is None or in_scope(event, view.agent, view.scopes))
        content, actions = event.content, event.actions
        if actions.awaits is not None or not (content is None or is_plain_text(content)):
            matcher.enter(event, place, seen)
        if not seen:
            continue
        if actions.summary is not None and event.author == view.agent:
            summarized = place
        if content is not None or actions.brief is not None:
            (current if event.invocation_id == view.invocation_id else earlier).append(place)
    calls = matcher.closed()
    interleaved = _find_interleaved(remaining, (*earlier, *current), calls, view) if calls else {}
    if moved_places := {place for places in interleaved.values() for place in places}:
        earlier = [place for place in earlier if place not in moved_places]
        current = [place for place in current if place not in moved_places]
    begun = bool(view.invocation_id) and view.invocation_id in _begun(remaining)
    return VisibleLog(remaining, [*earlier, *current], len(earlier), calls, interleaved, begun, matcher.dangling(), summarized)


def is_plain_text(content: Content) -> bool:
    """Returns whether the content is a single text. This is the usual case, and there may be thousands."""
    parts = content.parts
    return len(parts) == 1 and type(parts[0]) is TextPart


def not_rewound(events: Sequence[Event]) -> list[Event]:
    """Returns the stored events that no rewind hides."""
    stored = [event for event in events if not event.partial]
    taken_back = any([event.actions.rewind is not None for event in stored])  # noqa: C419 - a list is faster here
    return visible(stored) if taken_back else stored


def _reachable(events: list[Event], view: View) -> list[Event]:
    """Returns the events that the view can reach at all, as in an agent's history."""
    branches = {event.branch for event in events}
    if branches <= {NO_BRANCH, view.branch} and not view.branch.is_private:
        return events
    private = {branch for branch in branches if branch.is_private}
    unseen = {branch for branch in branches if not view.branch.sees(branch)}
    own = view.invocation_id
    return [event for event in events if event.branch not in (unseen if event.invocation_id == own else private)]


class _CallMatcher:
    """Matches results to calls as events are entered.

    A result belongs to the last earlier call with its id, by its author and in its invocation; a user's result to any
    author's call. Results without a call are dropped.
    """

    def __init__(self, reader: str, events: Sequence[Event]) -> None:
        self._reader, self._events = reader, events
        self._calls: dict[tuple[str, str, str], tuple[LoggedCall, bool]] = {}
        self._shown: dict[int, list[LoggedCall]] = {}
        self._waits: set[tuple[str, str, str]] = set()
        self._lost: list[tuple[str, int]] = []
        self._keys: list[tuple[LoggedCall, str, str]] = []

    def enter(self, event: Event, place: int, seen: bool) -> None:
        """Adds an event: its calls and results, and its wait. Single texts without a wait need not be entered."""
        actions, content, invocation = event.actions, event.content, event.invocation_id
        if actions.awaits is not None and actions.awaits.kind == "tool_result":
            self._waits.add((invocation, actions.awaits.id, event.author))
        for part in content.parts if content is not None else ():
            if isinstance(part, ToolCallPart):
                self._call(event, place, part, seen)
            elif isinstance(part, ToolResultPart) and seen:
                self._result(event, place, part)

    def _call(self, event: Event, place: int, part: ToolCallPart, seen: bool) -> None:
        """Adds a tool call. Hidden are calls that the reader may not see, and those that ask for an approval."""
        if event.author == USER:
            return
        call, invocation = LoggedCall(part, place), event.invocation_id
        about = _call_to_approve(part, event)
        if about is not None:
            self._waits.add((invocation, about, event.author))
        hidden = not seen or about is not None or (part.private and event.author != self._reader)
        for author in (event.author, USER):
            self._calls[invocation, part.call_id, author] = call, hidden
        if not hidden:
            self._shown.setdefault(place, []).append(call)
            self._keys.append((call, invocation, event.author))

    def _result(self, event: Event, place: int, part: ToolResultPart) -> None:
        """Puts a result beside its call, or notes it as lost."""
        found = self._calls.get((event.invocation_id, part.call_id, event.author))
        if found is None:
            if event.author in (USER, self._reader):
                self._lost.append((event.invocation_id, place))
        elif not found[1]:
            found[0].result, found[0].ended = part, place

    def closed(self) -> dict[int, list[LoggedCall]]:
        """Returns the calls to show, by place, after all events are entered."""
        ended = {event.invocation_id for event in self._events if event.actions.end is not None} if self._waits else set()
        for call, invocation, author in self._keys:
            waits = call.result is None and (invocation, call.part.call_id, author) in self._waits
            call.awaited = waits and invocation not in ended
        return self._shown

    def dangling(self) -> int | None:
        """Returns the last place of a result that may belong to a call before all entered events."""
        if not self._lost:
            return None
        begun = _begun(self._events)
        return max((place for invocation, place in self._lost if invocation not in begun), default=None)


def question_of(event: Event) -> ToolCallPart | None:
    """Returns the approval question in this event; None when there is none."""
    if event.actions.awaits is None or event.content is None:
        return None
    return next((part for part in event.content.tool_calls if _call_to_approve(part, event) is not None), None)


def _call_to_approve(part: ToolCallPart, event: Event) -> str | None:
    """Returns the id of the call to approve; None when the part is no approval question, but a user's tool of the same name.

    Models see neither these questions nor their answers: the agent's loop handles both.
    """
    awaits = event.actions.awaits
    is_question = is_approval(part) and awaits is not None and awaits.id == part.call_id
    return str(part.arguments["call"]) if is_question else None


def _begun(events: Iterable[Event]) -> set[str]:
    """Returns the invocations whose beginning is among the events."""
    return {event.invocation_id for event in events if event.author == USER and begins_invocation(event)}


def begins_invocation(event: Event) -> bool:
    """Returns whether a user's event begins an invocation."""
    actions = event.actions
    if actions.selection is None or actions.answers is not None:
        return False
    if event.content is None or is_plain_text(event.content):
        return True
    return all([part.kind != "tool_result" for part in event.content.parts])  # noqa: C419


def _find_interleaved(
    events: Sequence[Event], places: Sequence[int], calls: Mapping[int, Sequence[LoggedCall]], view: View
) -> dict[int, list[int]]:
    """Returns the reader's texts between its calls and their last result. They are shown before the calls, which precede
    their results.
    """
    open_: dict[tuple[str, str], tuple[int, int]] = {}
    interleaved: dict[int, list[int]] = {}
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
            interleaved.setdefault(base, []).append(place)
    return interleaved
