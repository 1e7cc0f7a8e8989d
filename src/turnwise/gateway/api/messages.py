"""Routes that send messages, look them up, and preview the selection. An answer comes whole, or as server-sent events:

event: event     a stored event; its id is the sequence number, for Last-Event-ID
event: partial   a piece of an event that is not complete yet
event: answer    the last event: the answer to the message
event: closing   this process is shutting down: reconnect with Last-Event-ID
event: problem   the stream ends because of an error
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from fastapi import Request, Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel, RootModel

from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.selections import Selection
from turnwise.gateway.api.errors import details_of, problems
from turnwise.gateway.api.parameters import (
    IfMatch,
    Key,
    MessageId,
    SessionId,
    UserServices,
    Wait,
    digest_of,
    id_of,
    wants_stream,
)
from turnwise.gateway.api.representations import answer_of, pending, read_answer
from turnwise.gateway.front import Front, TheFront, redactor_of
from turnwise.gateway.openapi import STREAM, Responses, api_router, link
from turnwise.gateway.problems import problem_of
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation
from turnwise.wire.messages import Answer, SelectAgent, SendMessage

router = api_router("messages")

_IN_SESSION = {"session_id": "$response.body#/session_id"}
_INVOCATION = {**_IN_SESSION, "invocation_id": "$response.body#/invocation_id"}
LINKS = {
    "message": link("find_message", "Look up the message.", {**_IN_SESSION, "message_id": "$response.body#/message_id"}),
    "invocation": link("get_invocation", "The invocation.", _INVOCATION),
    "events": link("list_invocation_events", "The invocation's events.", _INVOCATION),
    "cancel": link("cancel_invocation", "Cancel the invocation.", _INVOCATION),
    "answer": link(
        "answer_invocation",
        "Answer an open wait.",
        _INVOCATION,
        body={"call_id": "$response.body#/waits/0/call_id", "text": "Order 1001."},
    ),
    "rewind": link(
        "rewind_session",
        "Rewind the session to before this invocation.",
        _IN_SESSION,
        body={"invocation_id": "$response.body#/invocation_id"},
    ),
    "regenerate": link("regenerate_answer", "Regenerate the answer.", _INVOCATION),
}
ANSWERED: Responses = {
    200: {"content": STREAM, "links": LINKS},
    202: {"model": Answer, "description": "Accepted.", "links": LINKS},
}
"""The OpenAPI entries of responses that carry an answer."""


@router.post(
    "/sessions/{session_id}/messages",
    summary="Send a message",
    response_model=Answer,
    response_description="The answer.",
    responses={**problems(404, 409, 412, 502, body=True), **ANSWERED},
)
async def send_message(
    session_id: SessionId,
    body: SendMessage,
    request: Request,
    front: TheFront,
    services: UserServices,
    wait: Wait = True,
    key: Key = None,
    expected: IfMatch = None,
) -> Answer | Response:
    """Sends a message to a session. The answer is JSON, or a stream of events with `Accept: text/event-stream`.

    With `wait=false` the response is 202 as soon as the message is stored. The run continues if the connection
    breaks: send the message again with the same `id`, or look it up. A missing session is created, unless the app
    disables that.
    """
    id_ = id_of(body, key)
    ask = MessageRequest(session_id, body.content, id_, body.context, _config(front, body, request), expected=expected)
    if id_ is not None:
        ask = ask._replace(digest=digest_of(body), alone=key is not None)
    invocation = await services.messages.start(ask)
    return await answered(front, request, invocation, wait=wait)


@router.get(
    "/sessions/{session_id}/messages/{message_id:path}",
    summary="Look up a message",
    response_model=Answer,
    response_description="The message's state and answer.",
    responses={**problems(404, 409), 200: ANSWERED[200]},
)
async def find_message(
    session_id: SessionId,
    message_id: MessageId,
    request: Request,
    front: TheFront,
    services: UserServices,
    wait: Wait = False,
) -> Answer | Response:
    """Returns the state of a message that was sent before; with `wait=true`, its final answer.

    With `Accept: text/event-stream` the response is a stream of its events above `Last-Event-ID` and of new events.
    """
    if not wait and not wants_stream(request):
        reading = await services.invocations.message_status(session_id, message_id)
        return read_answer(session_id, reading, redactor_of(request))
    return await answered(front, request, await services.messages.find(session_id, message_id), wait=True)


@router.post(
    "/select",
    summary="Preview the selection",
    response_model=Selection,
    response_description="The decision with the verdict of every selector.",
    responses=problems(404, 409, 502, body=True),
)
async def select_agent(body: SelectAgent, request: Request, services: UserServices) -> Selection:
    """Returns which agent would answer this message now, and why. Stores nothing and runs no agent."""
    selection = await services.messages.select(body.content, session=body.session_id, context=body.context)
    return redactor_of(request).selection(selection)


async def answered(front: Front, request: Request, invocation: Invocation, *, wait: bool) -> Answer | Response:
    """Returns the response for an invocation: a stream, the answer, or 202 if the client does not wait."""
    if wants_stream(request):
        return stream(front, request, invocation)
    if not wait:
        return Response(pending(invocation).model_dump_json(), 202, media_type="application/json")
    return answer_of(invocation, await invocation.result(), redactor_of(request))


def _config(front: Front, body: SendMessage, request: Request) -> RunConfig | None:
    """Returns the run configuration with the request's settings; None if it equals the app's configuration."""
    usual = front.runner.config
    given = {name: value for name in ("when_busy", "deadline_seconds") if (value := getattr(body, name)) is not None}
    if "deadline_seconds" in given:
        given["deadline_seconds"] = min(given["deadline_seconds"], usual.deadline_seconds or usual.limits.invocation_seconds)
    if not wants_stream(request):
        given["streaming"] = False
    return usual.replace(**given) if given else None


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
