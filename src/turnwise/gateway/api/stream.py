"""Streams an invocation as server-sent events of the REST API.

event: event     a stored event; its id is the sequence number, for Last-Event-ID
event: partial   a piece of an event that is not complete yet
event: answer    the last event: the answer to the message
event: closing   this process is shutting down: reconnect with Last-Event-ID
event: problem   the stream ends because of an error
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel, RootModel
from starlette.requests import Request

from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError
from turnwise.facts.events import Event
from turnwise.gateway.api.answers import answer_of
from turnwise.gateway.api.errors import details_of
from turnwise.gateway.front import Front, redactor_of
from turnwise.gateway.problems import problem_of
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation

RETRY_MILLISECONDS = 1_000


class Item(NamedTuple):
    """One server-sent event before it is serialized."""

    event: str
    data: BaseModel
    id: str | None = None


def last_event_id(request: Request) -> int:
    """Returns the last sequence number that the client has; 0 if it has none.

    Raises:
        RequestInvalid: The header `Last-Event-ID` is not a sequence number.
    """
    given = request.headers.get("last-event-id", "").strip() or "0"
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise RequestInvalid("Last-Event-ID is not a sequence number.", fix="Send the id of the last received event.")
    return int(given)


def stream(front: Front, request: Request, invocation: Invocation) -> EventSourceResponse:
    """Streams the invocation's events above Last-Event-ID as they come, and then its answer."""
    items = _items(request, invocation, last_event_id(request))
    closing = Closing("This process is being stopped.", fix="Reconnect with Last-Event-ID.")
    hint = _written(Item("closing", details_of(problem_of(closing, request))), retry=RETRY_MILLISECONDS)
    return event_stream(items, _written, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)


async def _items(request: Request, invocation: Invocation, after: int) -> AsyncIterator[Item]:
    """Yields the invocation's events that the caller may see, then the answer, or the problem."""
    view = redactor_of(request)
    try:
        async for event in invocation.events(after=after):
            shown = view.event(event)
            if not event.partial or shown.content is not None:
                yield _item(shown)
        yield Item("answer", answer_of(invocation, await invocation.result(), view))
    except TurnwiseError as error:
        yield Item("problem", details_of(problem_of(error, request)))


def _item(event: Event) -> Item:
    # Serialized as a RootModel: a Fact would write NaN and infinity, which are not JSON.
    data = RootModel[Event].model_construct(event)
    return Item("partial", data) if event.partial else Item("event", data, str(event.sequence))


def _written(item: Item, *, retry: int | None = None) -> bytes:
    return format_sse_event(event=item.event, data_str=item.data.model_dump_json(), id=item.id, retry=retry)
