"""Puts pieces of a streamed answer together: very many small events would slow the interpreter's garbage collector down."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event


def merged_runs(events: Sequence[Event]) -> Iterator[tuple[int, Event]]:
    """Yields each run of pieces that continue each other as one piece, with the index of its first.

    Args:
        events: Partial events of one message, in order.
    """
    ends = [number + 1 for number, pair in enumerate(pairwise(events)) if not _continues(*pair)]
    start = 0
    for end in (*ends, len(events)):
        yield start, _joined(events[start:end])
        start = end


def _continues(before: Event, after: Event) -> bool:
    """Returns whether a piece goes on where the one before ends: same attempt, scope, part type and call."""
    first, second = _only_part(before), _only_part(after)
    if first is None or type(first) is not type(second) or (before.attempt, before.scope) != (after.attempt, after.scope):
        return False
    if isinstance(first, TextPart) and before.offset is not None:
        return after.offset == before.offset + len(first.text)
    same_call = not isinstance(first, ToolCallPart) or first.call_id == getattr(second, "call_id", None)
    return same_call and before.offset == after.offset


def _only_part(event: Event) -> Part | None:
    """Returns the part of a piece that may be joined with others."""
    parts = event.content.parts if event.content is not None else ()
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, TextPart | ThinkingPart) and part.seal is None:
        return part
    return part if isinstance(part, ToolCallPart) and part.raw is not None and not part.arguments else None


def _joined(events: Sequence[Event]) -> Event:
    """Returns the pieces as one piece with their joined text or arguments."""
    first = events[0]
    if len(events) == 1:
        return first
    part, parts = _only_part(first), [_only_part(event) for event in events]
    if isinstance(part, ToolCallPart):
        joined: Part = part.replace(raw="".join(each.raw or "" for each in parts if isinstance(each, ToolCallPart)))
    else:
        assert isinstance(part, TextPart | ThinkingPart)
        joined = part.replace(text="".join(each.text for each in parts if isinstance(each, TextPart | ThinkingPart)))
    assert first.content is not None
    return first.replace(content=Content(role=first.content.role, parts=(joined,)))
