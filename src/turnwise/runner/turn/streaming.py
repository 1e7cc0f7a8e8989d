"""Answers in pieces: partial events now, one stored event at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.runner.turn.public_names import named, no_attribute
from turnwise.selection.next_tag import NextTagFilter

Take = Callable[[Event], Awaitable[None]]


class TextStream:
    """Collects an answer's pieces and passes each on; all share one event id (behaviour A19)."""

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.stream()")

    def __init__(self, blank: Event, take: Take) -> None:
        self._blank, self._take = blank, take
        self._pieces: list[str] = []

    @named("context.stream().write")
    async def write(self, text: str) -> None:
        self._pieces.append(text)
        await self._take(self._blank.model_copy(update={"content": text_content(text), "partial": True}))

    async def finish(self) -> None:
        """Stores the whole; nothing when nothing was written."""
        if text := "".join(self._pieces):
            await self._take(self._blank.model_copy(update={"content": text_content(text)}))


@asynccontextmanager
async def open_stream(blank: Event, take: Take) -> AsyncIterator[TextStream]:
    """A stream of one event. When the block raises, the pieces were shown and the whole is not stored."""
    stream = TextStream(blank, take)
    yield stream
    await stream.finish()


class PieceFilter:
    """Keeps `<next>` tags out of what is shown, also when a tag is cut across pieces (behaviour B6), and counts it."""

    def __init__(self) -> None:
        self._filters: dict[str, NextTagFilter] = {}
        self._shown: dict[str, int] = {}

    def feed(self, event: Event) -> Event | None:
        """The partial event with only its visible text, and its offset; None when nothing of it is visible yet."""
        offset = self._shown.get(event.id, 0)
        if not event.text:
            return event.model_copy(update={"offset": offset})
        tags = self._filters.setdefault(event.id, NextTagFilter())
        visible = tags.feed(event.text)
        if not visible:
            return None
        self._shown[event.id] = offset + len(visible)
        return event.model_copy(update={"content": text_content(visible), "offset": offset})
