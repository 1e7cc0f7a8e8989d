"""Reads a running answer to its end over as many connections as needed, without losing or repeating an event."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import ValidationError

from turnwise.client.connection import ApiRequest, Gateway
from turnwise.client.errors import TEMPORARY, RetryBudget, Unreached, error_in, not_a_gateway_stream
from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.wire.messages import Answer

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


class SeenEvents:
    """Tracks which events and partial texts the reader has received."""

    def __init__(self) -> None:
        self._seen_characters: dict[str, int] = {}
        self._before_disconnect: set[str] = set()
        self._complete: set[str] = set()

    def unseen_part(self, event: Event, after: int) -> Event | None:
        """Returns the part of the event that the reader does not have; None if he has all of it.

        `after` is the sequence number up to which the reader has every event.
        """
        if not event.partial:
            self._complete.add(event.id)
            return event if event.sequence is None or event.sequence > after else None
        if event.id in self._complete:
            return None
        had, offset, text = self._seen_characters.get(event.id, 0), event.offset or 0, event.text
        if event.id in self._before_disconnect:
            if not text:
                return None  # a piece without text cannot be recognized as a repetition
            if offset < had:
                text, offset = text[had - offset :], had
                if not text:
                    return None
                event = event.replace(content=text_content(text), offset=offset)
        self._seen_characters[event.id] = max(had, offset + len(text))
        return event

    def on_disconnect(self) -> None:
        """Records that the connection broke: partial texts may be sent again from their beginning."""
        self._before_disconnect |= self._seen_characters.keys()


async def answer_to(gateway: Gateway, asked: ApiRequest, first: ApiRequest, again: ApiRequest) -> Answer:
    """Returns the answer to the request `asked`.

    If the connection times out without a byte, `first` and `again` are read as a stream, which sends keep-alive
    comments.
    """
    patience = gateway.patience()
    while True:
        try:
            return await gateway.ask_once(Answer, asked)
        except TEMPORARY as error:
            if getattr(error, "quiet", False):
                break
            if not await patience.wait_for_retry(error):
                raise
    async with aclosing(read(gateway, first, again, patience=patience)) as said:
        async for each in said:
            if isinstance(each, Answer):
                return each
    raise AssertionError("a stream that was read to its end has an answer")


async def read(
    gateway: Gateway, first: ApiRequest, again: ApiRequest, after: int = 0, patience: RetryBudget | None = None
) -> AsyncGenerator[Event | Answer, None]:
    """Yields the events above `after` as they come, including partial ones. The last item is the answer.

    Broken connections and gateway shutdowns are followed by a new connection. Only seen of a text can be missing
    then; the complete event follows.

    Args:
        gateway: The gateway.
        first: The request that opens the stream.
        again: The request that resumes it after an event came.
        after: The sequence number to start after.
        patience: The retry budget; None for a new one.
    """
    patience, seen, asked = patience or gateway.patience(), SeenEvents(), first
    while True:
        try:
            async with aclosing(_read_once(gateway, asked, after)) as stream:
                async for said in stream:
                    new = said if isinstance(said, Answer) else seen.unseen_part(said, after)
                    if new is None:
                        continue
                    patience.restart()
                    if isinstance(new, Answer):
                        yield new
                        return
                    after, asked = new.sequence or after, again
                    yield new
            raise Unreached("The gateway ended the stream before the answer.", fix="Read it again.")
        except TEMPORARY as error:
            seen.on_disconnect()
            if not await patience.wait_for_retry(error):
                raise


async def _read_once(gateway: Gateway, asked: ApiRequest, after: int) -> AsyncGenerator[Event | Answer, None]:
    """Yields the events and the answer that one connection brings, after that sequence number."""
    from httpx_sse import EventSource

    headers = {**asked.headers, **({"Last-Event-ID": str(after)} if after else {})}
    async with (
        gateway.stream(asked._replace(headers=headers)) as response,
        aclosing(EventSource(response).aiter_sse()) as sent,
    ):
        async for each in sent:
            if (said := _parsed(each)) is not None:
                yield said


def _parsed(sent: "ServerSentEvent") -> Event | Answer | None:
    """Returns the event or answer; None for an unknown kind. Raises the error that the gateway sent."""
    if sent.event in {"closing", "problem"}:
        raise error_in(sent.data, None if sent.retry is None else sent.retry / 1000)
    try:
        if sent.event in {"event", "partial"}:
            return Event.model_validate_json(sent.data)
        return Answer.model_validate_json(sent.data) if sent.event == "answer" else None
    except ValidationError:
        raise not_a_gateway_stream() from None
