"""Routes of users' sessions: create, list, read, update and delete."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestInvalid, SessionMissing
from turnwise.facts.sessions import Session as OurSession
from turnwise.gateway.adk.apps import UserServices, check_app
from turnwise.gateway.adk.events import past_exchanges, write_events
from turnwise.gateway.adk.schema import CreateBody, Event, MemoryBody, PastEvent, PatchBody, Session, State, json_response
from turnwise.gateway.front import Front, TheFront, redactor_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.sessions import Window
from turnwise.ports.stores import SessionInfo

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
