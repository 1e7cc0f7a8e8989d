"""The routes `POST /run` and `/run_sse`: send a message and receive the events that answer it."""

from collections.abc import AsyncIterator
from time import time

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from pydantic import JsonValue
from starlette.responses import Response

from turnwise.facts.content import Content
from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError, UnknownToolCall
from turnwise.facts.events import USER
from turnwise.facts.messages import MessageContext
from turnwise.facts.waits import waits_of
from turnwise.gateway.adk.apps import check_app
from turnwise.gateway.adk.events import MESSAGE, EventWriter, message_of, write_events
from turnwise.gateway.adk.schema import RunBody, json_of, json_response, stream_error
from turnwise.gateway.front import Front, IdempotencyKey, TheFront, TheServices, redactor_of
from turnwise.gateway.services import Services
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation

router = APIRouter(include_in_schema=False)
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Characters that JSON leaves unescaped and Python's clients treat as line ends."""


@router.post("/run")
async def run(body: RunBody, request: Request, front: TheFront, services: TheServices, key: IdempotencyKey = None) -> Response:
    """Sends a message and returns its events once it ends or waits. Disconnecting does not stop it."""
    invocation = await _start(front, services, body, key, streaming=False)
    result = await invocation.result()
    events = write_events(result.events, invocation.session, redactor_of(request))
    return json_response([event for event in events if event.author != USER])


@router.post("/run_sse")
async def run_sse(
    body: RunBody, request: Request, front: TheFront, services: TheServices, key: IdempotencyKey = None
) -> Response:
    """Sends a message and streams its events; with `streaming`, partial events too.

    An error before the first event is an HTTP error; a later one is a stream item.
    """
    invocation = await _start(front, services, body, key, streaming=body.streaming)
    items = _event_items(request, invocation, streaming=body.streaming)
    closing = Closing("This process is being stopped.", fix="Read the session again.")
    return event_stream(
        items,
        _encode_sse,
        ping=front.config.stream_ping_seconds,
        closing=front.closing,
        hint=lambda: _encode_sse(_error_item(closing)),
    )


async def _start(front: Front, services: Services, body: RunBody, key: str | None, *, streaming: bool) -> Invocation:
    """Starts the invocation, or attaches to one if there is no message.

    Raises:
        RequestInvalid, SessionMissing, NothingHere: The request does not fit. Errors of `Messages.start` pass through.
    """
    services = services.for_user(body.user_id)
    services.scope.session("messages:write", body.session_id)
    check_app(front, body.app_name)
    content = message_of(body.new_message) if body.new_message else Content()
    if not content.parts:
        return await _attach(services, body)
    message_request = MessageRequest(
        session=body.session_id,
        content=content,
        id=key,
        context=await _context(services, body, content),
        config=front.runner.config.replace(streaming=streaming, create_session=False),
    )
    return await services.messages.start(message_request)


async def _attach(services: Services, body: RunBody) -> Invocation:
    """Attaches to the invocation that the request names, without a new message."""
    if body.invocation_id is None or body.state_delta:
        raise RequestInvalid("There is no message.", fix="Send 'newMessage' with its parts.", where=MESSAGE)
    await services.sessions.get(body.session_id)
    return await services.messages.attach(body.session_id, body.invocation_id)


async def _context(services: Services, body: RunBody, content: Content) -> MessageContext:
    """Returns the message's context. A plain message with an invocation id answers that invocation's question.

    Raises UnknownToolCall if it waits for no reply.
    """
    attributes: dict[str, JsonValue] = dict(body.custom_metadata or {})
    answers = None
    if body.invocation_id is not None and not content.tool_results:
        head = (await services.sessions.get(body.session_id)).head
        open_questions = [wait for wait in waits_of(head) if (wait.invocation_id, wait.kind) == (body.invocation_id, "reply")]
        if not open_questions:
            raise UnknownToolCall("The invocation does not wait for a reply.", fix="Leave out 'invocationId'.")
        answers = open_questions[0].id
    return MessageContext(attributes=attributes, answers=answers, state=body.state_delta or {})


async def _event_items(request: Request, invocation: Invocation, *, streaming: bool) -> AsyncIterator[bytes]:
    """Yields the invocation's visible events as server-sent items; an error becomes the last item."""
    writer = EventWriter(invocation.session, redactor_of(request))
    try:
        async for event in invocation.events():
            shown = writer.write(event)
            if shown is None or shown.author == USER or (shown.partial and not streaming):
                continue
            yield json_of(shown)
    except TurnwiseError as error:
        yield _error_item(error)


def _error_item(error: TurnwiseError) -> bytes:
    return stream_error(error.code, f"{error.problem} {error.fix}".rstrip(), time())


def _encode_sse(item: bytes) -> bytes:
    return format_sse_event(data_str=item.decode().translate(_LINE_ENDS))
