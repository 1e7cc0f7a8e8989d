"""Which groups are shown: those of the run that goes on, then the newest, until the budget is used up (behaviour D9)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Summary
from turnwise.transcript.fences import fenced, runtime_note
from turnwise.transcript.groups import Group, group_at, group_of, opening_group
from turnwise.transcript.sizes import as_text, tokens_of_part, tokens_of_parts
from turnwise.transcript.view import Budget, View
from turnwise.transcript.visible import VisibleLog

LENGTHS = (8_000, 2_000, 400, 80)
"""To how many characters a text is cut, if need be: what is longest first, then what is oldest."""


def fit_groups(groups: Sequence[Group], tokens: int) -> list[Group]:
    """The groups, oldest first, with texts cut until all of them together take no more than that many tokens, or nothing is
    left to cut. What is cut says so, and how much of it is missing.
    """
    fitted = list(groups)
    over = sum(group.tokens for group in groups) - tokens
    for length in LENGTHS:
        for index, group in enumerate(fitted):
            if over <= 0:
                return fitted
            fitted[index] = _shortened(group, length, over)
            over -= group.tokens - fitted[index].tokens
    return fitted


def cut(text: str, characters: int) -> str:
    """A text of about that many characters: its beginning, how much is missing, its end. Our marks around it stay."""
    opening, inner, closing = fenced(text)
    missing = len(inner) - characters
    if missing <= 0:
        return text
    ahead = characters * 2 // 3
    middle = f"[… {missing:,} characters are left out here …]"
    shorter = f"{inner[:ahead]}{middle}{inner[len(inner) - (characters - ahead) :]}"
    return f"{opening}{shorter}{closing}" if len(shorter) < len(inner) else text


def _shortened(group: Group, length: int, over: int) -> Group:
    said, heard = list(group.said), list(group.heard)
    for parts in (said, heard):
        for index, part in enumerate(parts):
            if over > 0:
                parts[index] = _shortest(part, length, over)
                over -= tokens_of_part(part) - tokens_of_part(parts[index])
    return group_of(said, heard, group.events)


def _shortest(part: Part, length: int, over: int) -> Part:
    """The part cut to that length, or less if `over` tokens are gone before; it never grows."""
    size = tokens_of_part(part)
    shorter = _cut(part, length)
    if size - tokens_of_part(shorter) <= over:
        return shorter if tokens_of_part(shorter) < size else part
    least = length
    most = 3 * size
    while most - least > least // 10 + 10:
        middle = (least + most) // 2
        if size - tokens_of_part(_cut(part, middle)) < over:
            most = middle
        else:
            least = middle
    return _cut(part, least)


def _cut(part: Part, characters: int) -> Part:
    match part:
        case TextPart():
            return TextPart(text=cut(part.text, characters)) if len(part.text) > characters else part
        case ToolResultPart():
            result = cut(as_text(part.result), characters)
            changed = len(result) < len(as_text(part.result))
            return part.model_copy(update={"result": result}) if changed else part
        case ToolCallPart(raw=str(raw)):
            return part.model_copy(update={"raw": cut(raw, characters)})
        case ToolCallPart():
            arguments = {key: _cut_within(value, lambda text: cut(text, characters)) for key, value in part.arguments.items()}
            return part.model_copy(update={"arguments": arguments})
    return part


def _cut_within(value: JsonValue, shorten: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list):
        return [_cut_within(item, shorten) for item in value]
    if isinstance(value, dict):
        return {key: _cut_within(item, shorten) for key, item in value.items()}
    return value


def opening_place(reading: VisibleLog, view: View, opening: Content) -> int | None:
    """The place of the event that says it, before the reader's first event of this run; None when the log does not hold it."""
    if _is_called(view) or view.giver is not None:
        return None
    for place in reversed(reading.order[reading.current : run_begins(reading, view)]):
        event = reading.events[place]
        given = event.actions.brief
        if event.author == USER:
            given = given or event.content
        elif event.actions.transfer_to != view.agent:
            continue
        if given is not None and given.parts == opening.parts:
            return place
    return None


def opening_author(reading: VisibleLog, view: View) -> str | None:
    """Who handed over an opening that the log does not hold: whom the view names, or the agent that made the private call,
    empty when it is not known by its words; None when it is the user.
    """
    if view.giver is not None or not _is_called(view):
        return view.giver
    caller = view.branch.rpartition("/>")[0]
    events = (reading.events[place] for place in reversed(reading.order[reading.current :]))
    return next((event.author for event in events if event.branch == caller), "")


def run_begins(reading: VisibleLog, view: View) -> int:
    """The index in the reading's order of the reader's first event of this run; its length when there is none yet."""
    for index in range(reading.current, len(reading.order)):
        event = reading.events[reading.order[index]]
        if event.author == view.agent and event.branch == view.branch:
            return index
    return len(reading.order)


def _is_called(view: View) -> bool:
    return "/>" in view.branch


YOUR_TURN = TextPart(text=runtime_note("floor", "It is your turn."))
NOT_SHOWN = TextPart(text=runtime_note("start", "What came before is not shown."))
_RESERVED = tokens_of_parts((YOUR_TURN, NOT_SHOWN))
_LEAST = tokens_of_parts((TextPart(text="."),))
"""What the smallest group takes."""


class ChosenGroups(NamedTuple):
    """What is shown: groups in order. summarized: the first of them is a summary. dropped: how many events did not fit.

    stop: the index in the reading's order of the newest event that does not fit, were there no summary; None when all do.
    full: nothing fits besides, whatever stands before them. covers: up to which sequence number a summary takes the place of
    events.
    """

    groups: list[Group]
    dropped: int
    stop: int | None
    full: bool
    covers: int | None = None
    summarized: bool = False


class _Required(NamedTuple):
    """What is shown whatever else fits, by the index in the order, and what room it leaves. opened: the opening that the log
    does not hold, and before which index it stands.
    """

    groups: dict[int, Group]
    opened: tuple[int, Group] | None
    room: Budget


def choose_groups(reading: VisibleLog, view: View, budget: Budget, opening: Content | None) -> ChosenGroups:
    """What fits. Without an opening, at least what fits with any."""
    must = _must(reading, view, budget, opening)
    choice = _newest(reading, view, must)
    made = _summary(reading, view, choice.stop)
    if made is None:
        return choice
    first = _summarized(made, must.room.tokens)
    room = must.room._replace(tokens=must.room.tokens - sum(group.tokens for group in first))
    newer = _newest(reading, view, must._replace(room=room), above=made.until)
    return choice._replace(groups=[*first, *newer.groups], dropped=newer.dropped, covers=made.until, summarized=bool(first))


def _must(reading: VisibleLog, view: View, budget: Budget, opening: Content | None) -> _Required:
    """The opening, what the reader did in this run, and what the user said in this invocation; cut if it is too much."""
    opened = None if opening is None else opening_place(reading, view, opening)
    groups: dict[int, Group] = {}
    for index in range(reading.current, len(reading.order)):
        place = reading.order[index]
        event = reading.events[place]
        own = event.author == view.agent and event.branch == view.branch
        if own or event.author == USER or place == opened:
            groups[index] = group_at(place, reading, view)
    groups = {index: group for index, group in groups.items() if not group.is_empty}
    handed_over = None
    if opening is not None and opened is None:
        group = group_of((), opening_group(opening, opening_author(reading, view)))
        handed_over = (run_begins(reading, view), group)
    return _within(groups, handed_over, budget)


def _within(groups: dict[int, Group], opened: tuple[int, Group] | None, budget: Budget) -> _Required:
    every = [*([opened[1]] if opened else []), *groups.values()]
    taken, events = sum(group.tokens for group in every), sum(group.events for group in every)
    tokens = budget.tokens - _RESERVED - _breaks(list(groups.values())) * tokens_of_part(YOUR_TURN)
    if taken > tokens:
        cut_ = fit_groups(every, tokens)
        if opened:
            opened = (opened[0], cut_.pop(0))
        groups = dict(zip(groups, cut_, strict=True))
        taken = tokens
    return _Required(groups, opened, Budget(tokens - taken, budget.events - events))


def _breaks(groups: list[Group]) -> int:
    """How often a word of ours has to stand between two of the reader's: see `assembly`."""
    return sum(1 for before, group in pairwise(groups) if not before.heard and is_thought(group))


def is_thought(group: Group) -> bool:
    """Whether thinking is in it."""
    return any(isinstance(part, ThinkingPart) for part in group.said)


def _newest(reading: VisibleLog, view: View, must: _Required, above: int = 0) -> ChosenGroups:
    """What must be shown, and the newest besides, but nothing of other invocations up to sequence number `above`."""
    (tokens, events), kept, stop, dropped = must.room, dict(must.groups), None, 0
    for index in range(len(reading.order) - 1, -1, -1):
        if index in must.groups:
            continue
        event = reading.events[reading.order[index]]
        if index < reading.current and (event.sequence or above + 1) <= above:
            continue
        if stop is not None:
            dropped += 1
            continue
        group = group_at(reading.order[index], reading, view)
        if group.is_empty:
            continue
        if group.tokens > tokens or group.events > events:
            stop, dropped = index, 1
            continue
        kept[index] = group
        tokens, events = tokens - group.tokens, events - group.events
    ordered = sorted(kept.items())
    groups = [group for _, group in ordered]
    if must.opened is not None:
        at = sum(1 for index, _ in ordered if index < must.opened[0])
        groups.insert(at, must.opened[1])
    return ChosenGroups(groups, dropped, stop, tokens < _LEAST or events < 1)


def _summary(reading: VisibleLog, view: View, stop: int | None) -> Summary | None:
    """The reader's last summary; None when there is none, or what does not fit stands between it and what is shown.

    So what is shown depends on nothing that stands before it: a log can be read backwards until enough is there.
    """
    if reading.summarized is None:
        return None
    event = reading.events[reading.summarized]
    beyond = stop is not None and (stop >= reading.current or reading.summarized < reading.order[stop])
    return None if beyond and event.invocation_id != view.invocation_id else event.actions.summary


def _summarized(made: Summary, tokens: int) -> list[Group]:
    """The summary as a note that takes no more than that many tokens; nothing when it does not fit."""
    text = made.text.strip()
    if not text:
        return []
    whole = group_of((), [TextPart(text=runtime_note("summary", text))], events=0)
    shorter = fit_groups([whole], tokens)
    return shorter if shorter[0].tokens <= tokens else []
