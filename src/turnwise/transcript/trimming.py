"""Selects the groups to show: those of the current run, then the newest ones, within the budget (behaviour D9)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Summary
from turnwise.transcript.earlier import EarlierLog
from turnwise.transcript.fences import fenced, runtime_note
from turnwise.transcript.groups import Group, group_at, group_of, opening_group
from turnwise.transcript.view import Budget, View, VisibleLog, as_text, tokens_of_part, tokens_of_parts

LENGTHS = (8_000, 2_000, 400, 80)
"""The lengths in characters to which texts are cut: the longest first, then the oldest."""
YOUR_TURN = TextPart(text=runtime_note("floor", "It is your turn."))
NOT_SHOWN = TextPart(text=runtime_note("start", "What came before is not shown."))


def fit_groups(groups: Sequence[Group], tokens: int) -> list[Group]:
    """Returns the groups with texts cut until they fit into that many tokens, or until there is nothing left to cut.

    A cut text says how much is missing. Groups are given and returned oldest first.
    """
    fitted = list(groups)
    over = sum(group.tokens for group in groups) - tokens
    for length in LENGTHS:
        for index, group in enumerate(fitted):
            if over <= 0:
                return fitted
            fitted[index] = _shorten_group(group, length, over)
            over -= group.tokens - fitted[index].tokens
    return fitted


def cut(text: str, characters: int) -> str:
    """Returns the beginning and the end of a text, with a note on the missing characters. Keeps the marks around it."""
    opening, inner, closing = fenced(text)
    missing = len(inner) - characters
    if missing <= 0:
        return text
    ahead = characters * 2 // 3
    middle = f"[… {missing:,} characters are left out here …]"
    shorter = f"{inner[:ahead]}{middle}{inner[len(inner) - (characters - ahead) :]}"
    return f"{opening}{shorter}{closing}" if len(shorter) < len(inner) else text


def _shorten_group(group: Group, length: int, over: int) -> Group:
    """Returns the group with long parts shortened, until it has `over` tokens less."""
    said, heard = list(group.said), list(group.heard)
    for parts in (said, heard):
        for index, part in enumerate(parts):
            if over > 0:
                parts[index] = _shorten_part(part, length, over)
                over -= tokens_of_part(part) - tokens_of_part(parts[index])
    return group_of(said, heard, group.events, group.told)


def _shorten_part(part: Part, length: int, over: int) -> Part:
    """Returns the part cut to that length, or less if that already saves `over` tokens. The part never grows."""
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
    """Returns the part with its texts cut to that many characters."""
    match part:
        case TextPart():
            return TextPart(text=cut(part.text, characters)) if len(part.text) > characters else part
        case ToolResultPart():
            result = cut(as_text(part.result), characters)
            changed = len(result) < len(as_text(part.result))
            return part.replace(result=result) if changed else part
        case ToolCallPart(raw=str(raw)):
            return part.replace(raw=cut(raw, characters))
        case ToolCallPart():
            arguments = {key: _cut_within(value, lambda text: cut(text, characters)) for key, value in part.arguments.items()}
            return part.replace(arguments=arguments)
    return part


def _cut_within(value: JsonValue, shorten: Callable[[str], str]) -> JsonValue:
    """Returns the JSON value with its texts shortened."""
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list):
        return [_cut_within(item, shorten) for item in value]
    if isinstance(value, dict):
        return {key: _cut_within(item, shorten) for key, item in value.items()}
    return value


def opening_place(reading: VisibleLog, view: View, opening: Content) -> int | None:
    """Returns the place of the event that holds the opening, before the reader's first event of this run; None when there is
    none.
    """
    if view.branch.is_private or view.giver is not None:
        return None
    for place in reversed(reading.order[reading.current : run_begins(reading, view)]):
        event = reading.events[place]
        content = event.actions.brief
        if event.author == USER:
            content = content or event.content
        elif event.actions.transfer_to != view.agent:
            continue
        if content is not None and content.parts == opening.parts:
            return place
    return None


def opening_author(reading: VisibleLog, view: View) -> str | None:
    """Returns the author of an opening that the log does not hold; None for the user.

    It is the view's giver, or the agent that made the private call; empty when that agent has no event here.
    """
    if view.giver is not None or not view.branch.is_private:
        return view.giver
    caller = view.branch.caller
    events = (reading.events[place] for place in reversed(reading.order[reading.current :]))
    return next((event.author for event in events if event.branch == caller), "")


def run_begins(reading: VisibleLog, view: View) -> int:
    """Returns the index in the display order of the reader's first event of this run; its length when there is none yet."""
    for index in range(reading.current, len(reading.order)):
        event = reading.events[reading.order[index]]
        if event.author == view.agent and event.branch == view.branch:
            return index
    return len(reading.order)


_RESERVED = tokens_of_parts((YOUR_TURN, NOT_SHOWN))


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """The groups to show: the summary, the earlier groups from `first` on, then those of this invocation."""

    summary: Sequence[Group]
    """The summary that replaces older groups; empty when none is shown."""
    first: int
    """The index of the first earlier group."""
    groups: Sequence[Group]
    """The groups of this invocation, in order."""
    dropped: int
    """The number of groups that are not shown, without those that a summary replaces."""
    stop: int | None
    """The sequence number of the newest group that does not fit when summaries are ignored; None when all fit."""
    covers: int | None = None
    """The sequence number up to which a summary replaces events."""
    fits: int = 0
    """The index of the oldest earlier group that would fit."""


class _Required(NamedTuple):
    """The groups that must be shown, by their index in the display order."""

    groups: dict[int, Group]
    opened: tuple[int, Group] | None
    """The opening that the log does not hold, and the index before which it is shown."""
    room: Budget
    """The budget that they leave."""


def choose_groups(
    earlier: EarlierLog, reading: VisibleLog, view: View, budget: Budget, opening: Content | None, *, limit: int | None = None
) -> ChosenGroups:
    """Returns the groups that fit. Without an opening, returns only what would fit with any opening.

    Args:
        earlier: The other invocations.
        reading: The events of this invocation.
        limit: The most events of the log that may be read; None means all.
    """
    required = _required_groups(reading, view, budget, opening)
    current = _current_groups(reading, view, required)
    count = None if limit is None else limit - len(reading.events)
    choice = _add_earlier(earlier, current, count)
    made = _usable_summary(earlier, reading, current, choice)
    if made is None:
        return choice
    first = _summary_groups(made, current.room.tokens)
    taken = sum(group.tokens for group in first)
    room = current.room._replace(tokens=current.room.tokens - taken)
    newer = _add_earlier(earlier, current._replace(room=room), count, above=made.until)
    return replace(newer, summary=first, stop=choice.stop, fits=choice.fits, covers=made.until)


class _Current(NamedTuple):
    """The shown groups of this invocation."""

    groups: Sequence[Group]
    room: Budget
    """The room that they leave."""
    stop: int | None
    """The sequence number of the newest group that does not fit."""
    dropped: int


def _current_groups(reading: VisibleLog, view: View, required: _Required) -> _Current:
    """Returns the required groups and the newest others of this invocation."""
    (tokens, events), kept, stop, dropped = required.room, dict(required.groups), None, 0
    for index in range(len(reading.order) - 1, -1, -1):
        if index in required.groups:
            continue
        if stop is not None:
            dropped += 1
            continue
        group = group_at(reading.order[index], reading, view)
        if group.is_empty:
            continue
        if group.tokens > tokens or group.events > events:
            stop, dropped = reading.events[reading.order[index]].sequence or 0, 1
            continue
        kept[index] = group
        tokens, events = tokens - group.tokens, events - group.events
    ordered = sorted(kept.items())
    groups = [group for _, group in ordered]
    if required.opened is not None:
        at = sum(1 for index, _ in ordered if index < required.opened[0])
        groups.insert(at, required.opened[1])
    return _Current(groups, Budget(tokens, events), stop, dropped)


def _add_earlier(earlier: EarlierLog, current: _Current, count: int | None, above: int = 0) -> ChosenGroups:
    """Returns the groups of this invocation and the newest earlier ones above that sequence number."""
    lowest = earlier.after(above)
    if current.stop is not None:
        dropped = current.dropped + len(earlier.groups) - lowest
        return ChosenGroups((), len(earlier.groups), current.groups, dropped, current.stop, fits=len(earlier.groups))
    least = 0 if count is None else earlier.within(count)
    is_limited = count is not None and earlier.count >= count and least >= lowest
    cut = earlier.cut(*current.room, lowest=max(lowest, least), is_limited=is_limited)
    stop = earlier.sequence(cut.fits - 1) if cut.fits > max(lowest, least) else None
    return ChosenGroups((), cut.first, current.groups, cut.first - lowest, stop, fits=cut.fits)


def _required_groups(reading: VisibleLog, view: View, budget: Budget, opening: Content | None) -> _Required:
    """Returns the required groups: the opening, the reader's events in this run, and the user's messages in this invocation.

    Cuts them if they exceed the budget.
    """
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
    return _fit_required(groups, handed_over, budget)


def _fit_required(groups: dict[int, Group], opened: tuple[int, Group] | None, budget: Budget) -> _Required:
    """Shortens the groups that have to be shown until they fit into the budget; returns them and the rest of the budget."""
    all_groups = [*([opened[1]] if opened else []), *groups.values()]
    taken, events = sum(group.tokens for group in all_groups), sum(group.events for group in all_groups)
    tokens = budget.tokens - _RESERVED - _notes_needed(list(groups.values())) * tokens_of_part(YOUR_TURN)
    if taken > tokens:
        cut_ = fit_groups(all_groups, tokens)
        if opened:
            opened = (opened[0], cut_.pop(0))
        groups = dict(zip(groups, cut_, strict=True))
        taken = tokens
    return _Required(groups, opened, Budget(tokens - taken, budget.events - events))


def _notes_needed(groups: list[Group]) -> int:
    """Returns how many notes are needed between two groups of the reader: see `compile.assemble_messages`."""
    return sum(1 for before, group in pairwise(groups) if not before.heard and is_thought(group))


def is_thought(group: Group) -> bool:
    """Returns whether the group holds thinking."""
    said = group.said
    if not said or (len(said) == 1 and type(said[0]) is TextPart):  # the usual cases, and there may be thousands
        return False
    return any(isinstance(part, ThinkingPart) for part in said)


def _usable_summary(earlier: EarlierLog, reading: VisibleLog, current: _Current, choice: ChosenGroups) -> Summary | None:
    """Returns the reader's last summary; None when there is none, or a group that does not fit lies between it and the rest.

    The shown groups therefore never depend on earlier events, and the log can be read backwards until there are enough.
    """
    made = earlier.summary
    if reading.summarized is not None:
        event = reading.events[reading.summarized]
        if made is None or (event.sequence or 0) > made.sequence:
            return event.actions.summary
    if made is None or current.stop is not None or (choice.stop is not None and made.sequence < choice.stop):
        return None
    return made.summary


def _summary_groups(summary: Summary, tokens: int) -> list[Group]:
    """Returns the summary as a note of at most that many tokens; empty when it does not fit."""
    text = summary.text.strip()
    if not text:
        return []
    whole = group_of((), [TextPart(text=runtime_note("summary", text))], events=0)
    shorter = fit_groups([whole], tokens)
    return shorter if shorter[0].tokens <= tokens else []
