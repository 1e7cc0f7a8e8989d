"""Routes of users' sessions: create, list, read, update and delete. `POST /run` and `/run_sse` send a message to one."""

from collections.abc import AsyncIterator, Sequence
from time import time

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from pydantic import JsonValue
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Caller
from turnwise.facts.content import Content
from turnwise.facts.errors import Closing, RequestInvalid, SessionMissing, TurnwiseError, UnknownToolCall
from turnwise.facts.events import USER
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Session as OurSession
from turnwise.facts.waits import waits_of
from turnwise.gateway.adk.apps import UserServices, check_app
from turnwise.gateway.adk.events import MESSAGE, EventWriter, message_of, past_exchanges, write_events
from turnwise.gateway.adk.schema import (
    CreateBody,
    Event,
    MemoryBody,
    PastEvent,
    PatchBody,
    RunBody,
    Session,
    State,
    json_of,
    json_response,
    stream_error,
)
from turnwise.gateway.front import Front, IdempotencyKey, TheFront, TheServices, redactor_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.services.sessions import Window
from turnwise.gateway.sse import event_stream
from turnwise.ports.stores import SessionInfo
from turnwise.runner import Invocation

router = APIRouter(prefix="/apps/{app_name}/users/{user_id}", include_in_schema=False)
MOST_LISTED, MOST_SCANNED, PAGE = 200, 10_000, 500
"""Sessions in a list; sessions scanned for the newest ones; sessions read at a time."""
MOST_EVENTS = 5_000
"""Maximum number of a session's events returned, newest kept."""
_AT = "/sessions/{session_id}"


@router.get("/sessions")
async def list_sessions(app_name: str, request: Request, front: TheFront, services: UserServices) -> Response:
    """Lists the user's sessions with their state, without events, newest first."""
    infos: list[SessionInfo] = []
    after: str | None = None
    while len(infos) < MOST_SCANNED:
        page = await services.sessions.page(everybody=False, after=after, limit=PAGE)
        infos += page.items
        if (after := page.next) is None:
            break
    check_app(front, app_name)
    view, sessions = redactor_of(request), list[Session]()
    for info in sorted(infos, key=lambda info: info.updated_at, reverse=True)[:MOST_LISTED]:
        try:
            session = await services.sessions.get(info.key.id)
        except SessionMissing:  # deleted meanwhile
            continue
        sessions.append(_wire_session(session, [], view))
    return json_response(sessions)


@router.post("/sessions")
async def create_session(
    app_name: str, request: Request, front: TheFront, services: UserServices, body: CreateBody | None = None
) -> Response:
    """Creates a session with a state and an imported conversation."""
    return await _create(front, services, request, app_name, body or CreateBody())


@router.post(_AT)
async def create_session_with_id(
    app_name: str,
    session_id: str,
    request: Request,
    front: TheFront,
    services: UserServices,
    state: State | None = None,
) -> Response:
    """Creates a session under this id; the body is its state."""
    return await _create(front, services, request, app_name, CreateBody(session_id=session_id, state=state))


@router.get(_AT)
async def get_session(app_name: str, session_id: str, request: Request, front: TheFront, services: UserServices) -> Response:
    """Returns the session with its state and events."""
    session = await services.sessions.get(session_id)
    check_app(front, app_name)
    return json_response(await _with_events(services, session, redactor_of(request)))


@router.patch(_AT)
async def update_session(
    app_name: str,
    session_id: str,
    body: PatchBody,
    request: Request,
    front: TheFront,
    services: UserServices,
) -> Response:
    """Writes to the state without running an agent."""
    _check_user(front, services, app_name, returned=True)
    session = await services.sessions.write_state(session_id, body.state_delta)
    return json_response(await _with_events(services, session, redactor_of(request)))


@router.delete(_AT)
async def delete_session(app_name: str, session_id: str, front: TheFront, services: UserServices) -> Response:
    """Deletes the session. Idempotent."""
    _check_user(front, services, app_name)
    await services.sessions.delete(session_id)
    return JSONResponse(None)


@router.patch("/memory")
async def add_to_memory(app_name: str, body: MemoryBody, front: TheFront, services: UserServices) -> Response:
    """Remembers the messages of a session, as an ADK server with a memory service does. Idempotent."""
    services.scope.user("memories:write")
    check_app(front, app_name)
    await services.memories.add_session(body.session_id)
    return JSONResponse(None)


def _check_user(front: Front, services: Services, app: str, *, returned: bool = False) -> None:
    """Checks permissions before the app's name. Raises Forbidden, NothingHere.

    Args:
        returned: Whether the response returns the session, which requires the permission to read it.
    """
    services.scope.user("sessions:write")
    if returned:
        services.scope.user("sessions:read")
    check_app(front, app)


async def _create(front: Front, services: Services, request: Request, app: str, body: CreateBody) -> Response:
    """Creates a session, with its past events if the body has any, and returns it as a response."""
    _check_user(front, services, app, returned=bool(body.events))
    if body.options:
        raise RequestInvalid("Session options are not supported.", fix="Leave them out.", where=("body", "options"))
    past, author = past_exchanges(body.events or ()), _last_author(front, services.scope.caller, body.events or ())
    session = await services.sessions.create(body.session_id, body.state or {}, past=past, author=author)
    return json_response(await _with_events(services, session, redactor_of(request)))


def _last_author(front: Front, caller: Caller, events: Sequence[PastEvent]) -> str | None:
    """Returns the agent to record as the imported conversation's author: its last speaker that exists and that the caller may
    know of.
    """
    view = Redactor(caller, front.runner.tree)
    names = [event.author for event in reversed(events) if event.author in front.runner.tree]
    return next((name for name in names if view.reaches(name)), None)


async def _with_events(services: Services, session: OurSession, view: Redactor) -> Session:
    if not session.last_sequence:
        return _wire_session(session, [], view)
    events = (await services.sessions.events(session.id, Window(last=MOST_EVENTS))).events
    return _wire_session(session, write_events(events, session.key, view), view)


def _wire_session(session: OurSession, events: list[Event], view: Redactor) -> Session:
    """Returns the session in the ADK's form."""
    return Session(
        id=session.id,
        app_name=session.app,
        user_id=session.user,
        state=dict(view.state(session)),
        events=events,
        last_update_time=session.updated_at.timestamp(),
    )


run_router = APIRouter(include_in_schema=False)
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Characters that JSON leaves unescaped and Python's clients treat as line ends."""


@run_router.post("/run")
async def run(body: RunBody, request: Request, front: TheFront, services: TheServices, key: IdempotencyKey = None) -> Response:
    """Sends a message and returns its events once it ends or waits. Disconnecting does not stop it."""
    invocation = await _start(front, services, body, key, streaming=False)
    result = await invocation.result()
    events = write_events(result.events, invocation.session, redactor_of(request))
    return json_response([event for event in events if event.author != USER])


@run_router.post("/run_sse")
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
