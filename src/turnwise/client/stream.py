"""A running answer, read to its end over as many connections as it takes: nothing is lost, nothing comes twice."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import ValidationError

from turnwise.client.errors import error_in, strange_stream
from turnwise.client.gateway import Gateway
from turnwise.client.request import Asked
from turnwise.client.retry import PASSING, Patience, Unreached
from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.wire.messages import Answer

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


class Pieces:
    """What the reader of one answer has had of it."""

    def __init__(self) -> None:
        self._had: dict[str, int] = {}
        self._before_cut: set[str] = set()
        self._whole: set[str] = set()

    def new_in(self, event: Event, after: int) -> Event | None:
        """What the reader has not had; None when that is nothing. after: the sequence number up to which it has everything."""
        if not event.partial:
            self._whole.add(event.id)
            return event if event.sequence is None or event.sequence > after else None
        if event.id in self._whole:
            return None
        had, offset, text = self._had.get(event.id, 0), event.offset or 0, event.text
        if event.id in self._before_cut:
            if not text:
                return None  # a piece without text has no place by which it could be known again
            if offset < had:
                text, offset = text[had - offset :], had
                if not text:
                    return None
                event = event.model_copy(update={"content": text_content(text), "offset": offset})
        self._had[event.id] = max(had, offset + len(text))
        return event

    def cut(self) -> None:
        """The connection broke off: what was in pieces then may begin anew."""
        self._before_cut |= self._had.keys()


async def answer_to(gateway: Gateway, asked: Asked, first: Asked, again: Asked) -> Answer:
    """The answer that `asked` waits for; when that takes too long for a quiet connection, `first` and `again` are read as a
    stream, which shows signs of life.
    """
    patience = gateway.patience()
    while True:
        try:
            return await gateway.once(Answer, asked)
        except PASSING as error:
            if getattr(error, "quiet", False):
                break
            if not await patience.lasts(error):
                raise
    async with aclosing(read(gateway, first, again, patience=patience)) as said:
        async for each in said:
            if isinstance(each, Answer):
                return each
    raise AssertionError("a stream that was read to its end has an answer")


async def read(
    gateway: Gateway, first: Asked, again: Asked, after: int = 0, patience: Patience | None = None
) -> AsyncGenerator[Event | Answer, None]:
    """The events above that sequence number as they come, partial ones too, and the answer as the last.

    first: where it begins. again: where it is read on once an event came. Connections that break off, and gateways that are
    being stopped, are followed by another; what then is missing are pieces at most, whose whole comes all the same.
    """
    patience, pieces, asked = patience or gateway.patience(), Pieces(), first
    while True:
        try:
            async with aclosing(_one(gateway, asked, after)) as stream:
                async for said in stream:
                    new = said if isinstance(said, Answer) else pieces.new_in(said, after)
                    if new is None:
                        continue
                    patience.restart()
                    if isinstance(new, Answer):
                        yield new
                        return
                    after, asked = new.sequence or after, again
                    yield new
            raise Unreached("The gateway ended the stream before the answer.", fix="Read it again.")
        except PASSING as error:
            pieces.cut()
            if not await patience.lasts(error):
                raise


async def _one(gateway: Gateway, asked: Asked, after: int) -> AsyncGenerator[Event | Answer, None]:
    from httpx_sse import EventSource

    headers = {**asked.headers, **({"Last-Event-ID": str(after)} if after else {})}
    async with (
        gateway.stream(asked._replace(headers=headers)) as response,
        aclosing(EventSource(response).aiter_sse()) as sent,
    ):
        async for each in sent:
            if (said := _said(each)) is not None:
                yield said


def _said(sent: "ServerSentEvent") -> Event | Answer | None:
    """What was sent; None for what this version does not know. Raises what went wrong there."""
    if sent.event in {"closing", "problem"}:
        raise error_in(sent.data, None if sent.retry is None else sent.retry / 1000)
    try:
        if sent.event in {"event", "partial"}:
            return Event.model_validate_json(sent.data)
        return Answer.model_validate_json(sent.data) if sent.event == "answer" else None
    except ValidationError:
        raise strange_stream() from None
