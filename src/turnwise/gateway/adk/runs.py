"""`POST /run` and `/run_sse`: a message, and the events that answer it."""

from collections.abc import AsyncIterator
from time import time

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from pydantic import JsonValue
from starlette.responses import Response

from turnwise.facts.callers import Caller
from turnwise.facts.content import Content
from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError, UnknownToolCall
from turnwise.facts.events import USER
from turnwise.facts.messages import MessageContext
from turnwise.gateway.adk.apps import check_app
from turnwise.gateway.adk.errors import stream_error
from turnwise.gateway.adk.events import EventWriter, write_events
from turnwise.gateway.adk.parts import MESSAGE, message_of
from turnwise.gateway.adk.schema import RunBody, json_of, json_response
from turnwise.gateway.front import Front, TheCaller, TheFront, redactor_of
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.services.waits import waits_of
from turnwise.gateway.shared.parameters import IdempotencyKey
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation

router = APIRouter(include_in_schema=False)
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What JSON lets stand in a text, and Python's clients take for the end of a line."""


@router.post("/run")
async def run(body: RunBody, request: Request, front: TheFront, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """What is said to the message, whole, when it has ended or waits. Whoever leaves does not stop it."""
    invocation = await _begun(front, caller, body, key, streaming=False)
    result = await invocation.result()
    found = write_events(result.events, invocation.session, redactor_of(request))
    return json_response([event for event in found if event.author != USER])


@router.post("/run_sse")
async def run_sse(body: RunBody, request: Request, front: TheFront, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """The same as server-sent events; with `streaming`, what is being said comes in pieces before. An error before the first
    event is the answer's; one after that is an event.
    """
    invocation = await _begun(front, caller, body, key, streaming=body.streaming)
    items = _told(request, invocation, streaming=body.streaming)
    closing = Closing("This process is being stopped.", fix="Read the session again.")
    return event_stream(
        items, _written, ping=front.config.stream_ping_seconds, closing=front.closing, hint=lambda: _written(_failed(closing))
    )


async def _begun(front: Front, caller: Caller, body: RunBody, key: str | None, *, streaming: bool) -> Invocation:
    """The invocation that answers the message. As of `Messages.start`; RequestInvalid, SessionMissing, NothingHere."""
    front.scope.session(caller, "messages:write", body.session_id, body.user_id)
    check_app(front, body.app_name)
    content = message_of(body.new_message) if body.new_message else Content()
    if not content.parts:
        return await _resumed(front, caller, body)
    ask = MessageRequest(
        session=body.session_id,
        content=content,
        user=body.user_id,
        id=key,
        context=await _context(front, caller, body, content),
        config=front.runner.config.model_copy(update={"streaming": streaming, "create_session": False}),
    )
    return await front.messages.start(caller, ask)


async def _resumed(front: Front, caller: Caller, body: RunBody) -> Invocation:
    """The invocation to be read on: nothing is said."""
    if body.invocation_id is None or body.state_delta:
        raise RequestInvalid("There is no message.", fix="Send 'newMessage' with its parts.", where=MESSAGE)
    await front.sessions.get(caller, body.session_id, body.user_id)
    return await front.messages.attach(caller, body.session_id, body.invocation_id, body.user_id)


async def _context(front: Front, caller: Caller, body: RunBody, content: Content) -> MessageContext:
    attributes: dict[str, JsonValue] = dict(body.custom_metadata or {})
    answers = None
    if body.invocation_id is not None and not content.tool_results:
        head = (await front.sessions.get(caller, body.session_id, body.user_id)).head
        asked = [wait for wait in waits_of(head) if (wait.invocation_id, wait.kind) == (body.invocation_id, "reply")]
        if not asked:
            raise UnknownToolCall("That invocation does not wait for a reply.", fix="Leave out 'invocationId'.")
        answers = asked[0].call_id
    return MessageContext(attributes=attributes, answers=answers, state=body.state_delta or {})


async def _told(request: Request, invocation: Invocation, *, streaming: bool) -> AsyncIterator[bytes]:
    telling = EventWriter(invocation.session, redactor_of(request))
    try:
        async for event in invocation.events():
            shown = telling.tell(event)
            if shown is None or shown.author == USER or (shown.partial and not streaming):
                continue
            yield json_of(shown)
    except TurnwiseError as error:
        yield _failed(error)


def _failed(error: TurnwiseError) -> bytes:
    return stream_error(error.code, f"{error.problem} {error.fix}".rstrip(), time())


def _written(item: bytes) -> bytes:
    return format_sse_event(data_str=item.decode().translate(_LINE_ENDS))
