"""Routes that create, retrieve, cancel, delete and compact responses, and count input tokens."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, JsonValue

from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.gateway.front import STREAM, Front, IdempotencyKey, TheFront, UserServices, redactor_of
from turnwise.gateway.openai.errors import invalid_parameter, refusals
from turnwise.gateway.openai.models import agent_of_model
from turnwise.gateway.openai.responses.input import (
    Compact,
    Compaction,
    Items,
    ReadInput,
    Window,
    compact_items,
    expand_compactions,
    items_of,
    page_of,
    read_input,
)
from turnwise.gateway.openai.responses.response import conversation_events, current_response, find_response, previous_response
from turnwise.gateway.openai.responses.schema import Create, ResponseObject, ResponseTool, ThreadOrConversation, check_supported
from turnwise.gateway.openai.responses.start import StartedResponse, start_response
from turnwise.gateway.openai.responses.stream import ResponseStream, Wire, outcome, sse_event
from turnwise.gateway.services.threads import REFUSED
from turnwise.gateway.sse import event_stream
from turnwise.transcript.view import as_text, tokens_of, tokens_of_parts


class CountTokens(ThreadOrConversation):
    """The body of `POST /v1/responses/input_tokens`."""

    tools: list[ResponseTool] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    personality: str | None = None
    reasoning: dict[str, JsonValue] | None = None
    text: dict[str, JsonValue] | None = None
    truncation: Literal["auto", "disabled"] | None = None


class InputTokenCount(BaseModel):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


def estimate_tokens(body: CountTokens, received: ReadInput, history: Iterable[Event]) -> InputTokenCount:
    """Returns the estimated tokens of the input, the tools and the conversation so far."""
    said = tokens_of_parts(received.content.parts)
    before = sum(tokens_of_parts(event.content.parts) for event in history if event.content)
    repeated = sum(tokens_of_parts(turn.sent.parts) + tokens_of(turn.text) for turn in received.past)
    tools = sum(tokens_of(as_text(tool.model_dump(mode="json", exclude_none=True))) for tool in body.tools or ())
    return InputTokenCount(input_tokens=said + before + repeated + tools)


router = APIRouter(tags=["openai"])


@router.post(
    "/responses",
    operation_id="create_response",
    response_model=ResponseObject,
    responses={**refusals(404, 409, 413), 200: STREAM},
)
async def create(body: Create, request: Request, front: TheFront, services: UserServices, key: IdempotencyKey = None) -> Any:
    """Creates a response: as JSON, as a stream of events, or in the background.

    The run continues if the connection breaks.
    """
    check_supported(body)
    started = await start_response(front, services, body, key)
    if body.stream:
        padded = bool(body.stream_options and body.stream_options.include_obfuscation)
        return _stream(front, ResponseStream(front, request, started, padded=padded), started)
    if body.background:
        return replaced(started.blank, status="in_progress" if started.invocation.id else "queued")
    try:
        return await outcome(request, started)
    finally:
        _delete_if_temporary(started)


@router.post("/responses/compact", operation_id="compact_response", responses=refusals(404, 413))
async def compact(body: Compact, services: UserServices) -> Compaction:
    """Compacts a conversation into one item, with which the input of a later request begins."""
    agent_of_model(services, body.model)
    if body.previous_response_id is not None:
        await previous_response(services, body.previous_response_id)
    given = expand_compactions(body.input or [])
    read_input(given.items, body.instructions)
    if not given.items and given.after is None and body.previous_response_id is None:
        raise invalid_parameter("input", "There is nothing to compact.", fix="Send previous_response_id, or an input.")
    return compact_items(given.after or body.previous_response_id, given.items)


@router.post("/responses/input_tokens", operation_id="count_input_tokens", responses=refusals(404))
async def input_tokens(body: CountTokens, front: TheFront, services: UserServices) -> InputTokenCount:
    """Estimates the input tokens of a request, with the same estimate that agents use."""
    received = read_input(body.input, body.instructions)
    return estimate_tokens(body, received, await conversation_events(front, services, body))


@router.get(
    "/responses/{response_id}",
    operation_id="get_response",
    response_model=ResponseObject,
    responses={**refusals(404), 200: STREAM},
)
async def retrieve(
    response_id: str,
    request: Request,
    front: TheFront,
    services: UserServices,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1)] = -1,
    include_obfuscation: bool = False,
) -> Any:
    """Returns the current state of a response. With `stream=true`, streams its events above `starting_after`, stored and
    new ones.
    """
    found = await find_response(services, response_id)
    now = current_response(found, redactor_of(request))
    if not stream:
        return now
    invocation = await found.services.messages.find(found.name.session, found.name.message)
    started = StartedResponse(found.name, found.blank, invocation, found.services)
    ended = now if found.known.receipt.state == REFUSED else None
    return _stream(
        front, ResponseStream(front, request, started, after=starting_after, padded=include_obfuscation, ended=ended), started
    )


@router.post(
    "/responses/{response_id}/cancel",
    operation_id="cancel_response",
    response_model=ResponseObject,
    responses=refusals(404, 409),
)
async def cancel(response_id: str, request: Request, services: UserServices) -> ResponseObject:
    """Cancels a response that is in progress, or ends its open waits. A response that has ended does not change."""
    found = await find_response(services, response_id, to="invocations:cancel")
    await found.services.threads.cancel(found.name.session, found.name.message)
    return current_response(await find_response(services, response_id), redactor_of(request))


@router.get("/responses/{response_id}/input_items", operation_id="list_input_items", responses=refusals(404))
async def input_items(
    response_id: str,
    services: UserServices,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    _: Annotated[list[str] | None, Query(alias="include")] = None,
) -> Items:
    """Lists the input items of a response. `include` has no effect."""
    found = await find_response(services, response_id)
    return page_of(items_of(found.name, found.known.receipt.message.content), Window(after, limit, order))


@router.delete("/responses/{response_id}", operation_id="delete_response", responses=refusals(404, 409))
async def delete(response_id: str, services: UserServices) -> dict[str, Any]:
    """Deletes the latest response of its conversation. If the session holds nothing else, the session is deleted, too."""
    found = await find_response(services, response_id, to="sessions:write")
    whole = found.blank.conversation is None
    await found.services.threads.take_back(found.name.session, found.name.message, whole=whole)
    return {"id": response_id, "object": "response", "deleted": True}


def _delete_if_temporary(started: StartedResponse) -> None:
    """Deletes a response that is not to be stored, after it was sent or its client disconnected."""
    if started.is_temporary:
        started.services.threads.delete_after(started.invocation)


def _stream(front: Front, stream: ResponseStream, started: StartedResponse) -> Response:
    """Returns the streaming HTTP response. A session with only unstored responses is deleted when the stream ends."""

    async def events() -> AsyncIterator[Wire]:
        try:
            async for wire in stream.events():
                yield wire
        finally:
            _delete_if_temporary(started)

    return event_stream(
        events(),
        sse_event,
        ping=front.config.stream_ping_seconds,
        closing=front.closing,
        hint=lambda: sse_event(stream.closing()),
    )
