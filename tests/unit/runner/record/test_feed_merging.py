"""Very many small pieces of an answer: few events are kept, and every reader gets each character once (A19, A22)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.runner.record.feed import EventFeed

PIECES = 5_000
TEXTS = [f"{number} " for number in range(PIECES)]


def pieces(kind: str, id_: str = "a", *, call: str = "c") -> list[Event]:
    found, offset = [], 0
    for text in TEXTS:
        parts: dict[str, TextPart | ThinkingPart | ToolCallPart] = {
            "text": TextPart(text=text),
            "thinking": ThinkingPart(text=text),
            "arguments": ToolCallPart(call_id=call, tool="work", raw=text),
        }
        found.append(
            Event(
                id=id_,
                author="a",
                invocation_id="i",
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
                content=Content(parts=(parts[kind],)),
                partial=True,
                offset=offset,
            )
        )
        offset += len(text) if kind == "text" else 0
    return found


def text_of(event: Event) -> str:
    assert event.content is not None
    (part,) = event.content.parts
    return (part.raw or "") if isinstance(part, ToolCallPart) else part.text  # type: ignore[union-attr]


async def taken(events: AsyncIterator[Event], most: int) -> list[Event]:
    return [await anext(events) for _ in range(most)]


@pytest.mark.parametrize("kind", ["text", "thinking", "arguments"])
async def test_each_reader_gets_each_character_once(kind: str) -> None:
    """A reader that keeps up, one that stands still in the middle, and one that comes late."""
    feed = EventFeed()
    live, still, keeping_up = feed.read(), feed.read(), []
    at_first: list[Event] = []
    for number, piece in enumerate(pieces(kind)):
        feed.publish(piece)
        keeping_up.append(await anext(live))
        if number == 100:
            at_first = await taken(still, 50)
    late = feed.read()
    feed.close()
    rest = [event async for event in still]
    seen_late = [event async for event in late]
    for seen in (keeping_up, at_first + rest, seen_late):
        assert "".join(map(text_of, seen)) == "".join(TEXTS)
    assert len(keeping_up) == PIECES
    assert len(seen_late) < 1_000
    if kind == "text":
        assert [event.offset for event in seen_late] == [
            len("".join(map(text_of, seen_late[:n]))) for n in range(len(seen_late))
        ]


async def test_what_does_not_continue_the_piece_before_stays_apart() -> None:
    """Another call, another kind, another attempt, a gap."""
    feed = EventFeed()
    text, thinking = pieces("text"), pieces("thinking")
    first, second = pieces("arguments", call="c-1"), pieces("arguments", call="c-2")
    mixed = [event for four in zip(text, thinking, first, second, strict=True) for event in four][:1_000]
    again = [event.replace(attempt=2) for event in text[:600]]
    gaps = text[:1_200:2]
    for event in (*mixed, *again, *gaps):
        feed.publish(event)
    feed.close()
    found = [event async for event in feed.read()]
    assert "".join(map(text_of, found)) == "".join(map(text_of, (*mixed, *again, *gaps)))
    assert len(found) >= len(mixed) + len(gaps)
    assert {event.attempt for event in found} == {1, 2}


async def test_pieces_go_when_the_whole_comes() -> None:
    feed = EventFeed()
    for piece in pieces("text"):
        feed.publish(piece)
    await anext(feed.read())
    feed.publish(pieces("text")[0].replace(partial=False, sequence=1, content=Content(parts=(TextPart(text="all"),))))
    feed.close()
    assert [event.text async for event in feed.read()] == ["all"]
