"""Sessions of users, as the ADK's clients make, list, read, change and delete them."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestError, RequestInvalid, SessionMissing
from turnwise.facts.sessions import Session as OurSession
from turnwise.gateway.adk.apps import check_app
from turnwise.gateway.adk.events import write_events
from turnwise.gateway.adk.parts import past_of
from turnwise.gateway.adk.schema import CreateBody, Event, MemoryBody, PastEvent, PatchBody, Session, State, json_response
from turnwise.gateway.front import Front, TheCaller, TheFront, redactor_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.sessions import Window
from turnwise.ports.stores import SessionInfo

router = APIRouter(prefix="/apps/{app_name}/users/{user_id}", include_in_schema=False)
MOST_LISTED, MOST_SEEN, PAGE = 200, 10_000, 500
"""How many sessions a list has, the newest of how many."""
MOST_EVENTS = 5_000
"""How many of a session's events are read, the newest."""
_AT = "/sessions/{session_id}"


@router.get("/sessions")
async def list_sessions(app_name: str, user_id: str, request: Request, front: TheFront, caller: TheCaller) -> Response:
    """The user's sessions with their state, without events; the newest first."""
    infos: list[SessionInfo] = []
    after: str | None = None
    while len(infos) < MOST_SEEN:
        page = await front.sessions.page(caller, user=user_id, everybody=False, after=after, limit=PAGE)
        infos += page.items
        if (after := page.next) is None:
            break
    check_app(front, app_name)
    view, found = redactor_of(request), list[Session]()
    for info in sorted(infos, key=lambda info: info.updated_at, reverse=True)[:MOST_LISTED]:
        try:
            session = await front.sessions.get(caller, info.key.id, user_id)
        except SessionMissing:  # deleted meanwhile
            continue
        found.append(_shown(session, [], view))
    return json_response(found)


@router.post("/sessions")
async def create_session(
    app_name: str, user_id: str, request: Request, front: TheFront, caller: TheCaller, body: CreateBody | None = None
) -> Response:
    """A session with that state, and with what was said elsewhere."""
    given = body or CreateBody()
    return await _created(front, caller, request, app_name, user_id, given)


@router.post(_AT)
async def create_session_with_id(
    app_name: str,
    user_id: str,
    session_id: str,
    request: Request,
    front: TheFront,
    caller: TheCaller,
    state: State | None = None,
) -> Response:
    """The same by its id; the body is the state."""
    return await _created(front, caller, request, app_name, user_id, CreateBody(session_id=session_id, state=state))


@router.get(_AT)
async def get_session(
    app_name: str, user_id: str, session_id: str, request: Request, front: TheFront, caller: TheCaller
) -> Response:
    """The session with its state and its events."""
    session = await front.sessions.get(caller, session_id, user_id)
    check_app(front, app_name)
    return json_response(await _whole(front, caller, session, redactor_of(request)))


@router.patch(_AT)
async def update_session(
    app_name: str,
    user_id: str,
    session_id: str,
    body: PatchBody,
    request: Request,
    front: TheFront,
    caller: TheCaller,
) -> Response:
    """Writes to the state; nobody is asked to answer."""
    _check_user(front, caller, app_name, user_id, shown=True)
    session = await front.sessions.write_state(caller, session_id, body.state_delta, user_id)
    return json_response(await _whole(front, caller, session, redactor_of(request)))


@router.delete(_AT)
async def delete_session(app_name: str, user_id: str, session_id: str, front: TheFront, caller: TheCaller) -> Response:
    """All that is kept of it; one that is not there is deleted as well."""
    _check_user(front, caller, app_name, user_id)
    await front.sessions.delete(caller, session_id, user_id)
    return JSONResponse(None)


@router.patch("/memory")
async def add_to_memory(app_name: str, user_id: str, body: MemoryBody, front: TheFront, caller: TheCaller) -> Response:
    """Refused, as by an ADK without a memory service: agents have their memory themselves."""
    _check_user(front, caller, app_name, user_id)
    await front.sessions.get(caller, body.session_id, user_id)
    raise RequestError("This gateway has no memory service.", fix="Let agents keep what is to be remembered.")


def _check_user(front: Front, caller: Caller, app: str, user: str, *, shown: bool = False) -> None:
    """Forbidden before anything is said of the app, or done. shown: what is done is answered with what there is then."""
    front.scope.user(caller, "sessions:write", user)
    if shown:
        front.scope.user(caller, "sessions:read", user)
    check_app(front, app)


async def _created(front: Front, caller: Caller, request: Request, app: str, user: str, given: CreateBody) -> Response:
    _check_user(front, caller, app, user, shown=bool(given.events))
    if given.options:
        raise RequestInvalid("Sessions have no options here.", fix="Leave them out.", where=("body", "options"))
    past, author = past_of(given.events or ()), _author(front, caller, given.events or ())
    session = await front.sessions.create(caller, given.session_id, given.state or {}, user, past=past, author=author)
    return json_response(await _whole(front, caller, session, redactor_of(request)))


def _author(front: Front, caller: Caller, events: Sequence[PastEvent]) -> str | None:
    """Who is to have said what was said elsewhere: who spoke last, if that is an agent here that the caller may know of."""
    view = Redactor(caller, front.runner.tree)
    names = [event.author for event in reversed(events) if event.author in front.runner.tree]
    return next((name for name in names if view.reaches(name)), None)


async def _whole(front: Front, caller: Caller, session: OurSession, view: Redactor) -> Session:
    if not session.last_sequence:
        return _shown(session, [], view)
    found = (await front.sessions.events(caller, session.id, Window(last=MOST_EVENTS), session.user)).events
    return _shown(session, write_events(found, session.key, view), view)


def _shown(session: OurSession, events: list[Event], view: Redactor) -> Session:
    return Session(
        id=session.id,
        app_name=session.app,
        user_id=session.user,
        state=dict(view.state(session)),
        events=events,
        last_update_time=session.updated_at.timestamp(),
    )
