"""Sessions: made, listed, read, taken back, copied and deleted."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request, Response

from turnwise.facts.sessions import Session
from turnwise.gateway.api.conditions import ETAG, IfMatch, mark
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import LOCATION, Responses, api_router, link
from turnwise.gateway.api.parameters import After, Limit, SessionId, User, UserId
from turnwise.gateway.api.representations import session_details, session_summary
from turnwise.gateway.front import TheCaller, TheFront, redactor_of
from turnwise.gateway.services.sessions import Window
from turnwise.wire.bounds import MOST_CHARACTERS, MOST_ROWS, MOST_SEQUENCE, SEGMENT
from turnwise.wire.resources import (
    CreateSession,
    EventPage,
    ForkSession,
    RewindSession,
    SessionPage,
    SessionShown,
    SessionState,
    WriteState,
)

router = api_router("sessions")

_THIS = {"session_id": "$response.body#/id"}
_LINKS = {
    "session": link("get_session", "The session.", _THIS),
    "message": link("send_message", "Send it a message.", _THIS),
    "events": link("list_events", "Its events.", _THIS),
    "state": link("get_state", "Its state.", _THIS),
    "write": link("write_state", "Write to its state.", _THIS),
    "artifacts": link("list_artifacts", "Its artifacts.", _THIS),
    "decisions": link("search_decisions", "Why who answered.", _THIS),
    "fork": link("fork_session", "Copy it.", _THIS),
    "delete": link("delete_session", "Delete it.", _THIS),
}
_CREATED: Responses = {201: {"headers": LOCATION | ETAG, "links": _LINKS}}
_FOUND: Responses = {200: {"headers": ETAG, "links": _LINKS}}
_STATE: Responses = {200: {"headers": ETAG}}


@router.post(
    "/sessions",
    summary="Create a session",
    status_code=201,
    response_model=SessionShown,
    response_description="The new session.",
    responses={**problems(409, body=True), **_CREATED},
)
async def create_session(
    body: CreateSession, request: Request, response: Response, front: TheFront, caller: TheCaller, user: User = None
) -> SessionShown:
    """Make an empty session, perhaps with a state to begin with: keys that begin with `user:` are the user's, in all sessions.

    Nobody needs to: the first message makes a session, too.
    """
    session = await front.sessions.create(caller, body.id, body.state, user)
    response.headers["Location"] = _place(request, session, user)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.get(
    "/sessions",
    summary="List sessions",
    response_model=SessionPage,
    response_description="A page of sessions.",
    responses=problems(),
)
async def list_sessions(
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    all_users: Annotated[bool, Query(description="Everybody's, for operators.")] = False,
    after: After = None,
    limit: Limit = 50,
) -> SessionPage:
    """The sessions of the caller, of the `user` who is named, or of all users: by user and id, without state or events."""
    page = await front.sessions.page(caller, user=user, everybody=all_users, after=after, limit=limit)
    return SessionPage(sessions=[session_summary(info) for info in page.items], next=page.next)


@router.get(
    "/sessions/{session_id}",
    summary="Get a session",
    response_model=SessionShown,
    response_description="The session.",
    responses={**problems(404), **_FOUND},
)
async def get_session(
    session_id: SessionId, request: Request, response: Response, front: TheFront, caller: TheCaller, user: User = None
) -> SessionShown:
    """How the session stands: whether it is busy, who spoke last, and what it waits for."""
    session = await front.sessions.get(caller, session_id, user)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.get(
    "/sessions/{session_id}/events",
    summary="List events",
    response_model=EventPage,
    response_description="A page of events, oldest first.",
    responses=problems(404),
)
async def list_events(
    session_id: SessionId,
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    after: Annotated[int, Query(ge=0, le=MOST_SEQUENCE, description="Only events with higher numbers.")] = 0,
    before: Annotated[int | None, Query(ge=0, le=MOST_SEQUENCE, description="Only events with lower numbers.")] = None,
    last: Annotated[int | None, Query(ge=1, le=MOST_ROWS, description="The newest that many, in place of `limit`.")] = None,
    limit: Limit = 50,
    invocation_id: Annotated[
        str | None, Query(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="Only of this one.")
    ] = None,
    hidden: Annotated[bool, Query(description="Also what was taken back, or left by a process that died.")] = False,
) -> EventPage:
    """The session's log: numbered from 1 without gaps. A page's `next` goes into `after` for the one behind it."""
    window = Window(after, before, last, limit, invocation_id, hidden)
    page, view = await front.sessions.events(caller, session_id, window, user), redactor_of(request)
    return EventPage(events=[view.event(event) for event in page.events], next=page.next)


@router.get(
    "/sessions/{session_id}/state",
    summary="Get the state",
    response_model=SessionState,
    response_description="The state of all scopes in one.",
    responses={**problems(404), **_STATE},
)
async def get_state(
    session_id: SessionId, request: Request, response: Response, front: TheFront, caller: TheCaller, user: User = None
) -> SessionState:
    """What agents keep in the session, and what they share between the user's sessions."""
    session = await front.sessions.get(caller, session_id, user)
    mark(response, session)
    return SessionState(session_id=session.id, revision=session.revision, state=dict(redactor_of(request).state(session)))


@router.patch(
    "/sessions/{session_id}/state",
    summary="Write to the state",
    response_model=SessionState,
    response_description="The state as it is then.",
    responses={**problems(404, 409, 412, body=True), **_STATE},
)
async def write_state(
    session_id: SessionId,
    body: WriteState,
    request: Request,
    response: Response,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    expected: IfMatch = None,
) -> SessionState:
    """Write some keys, not while the session answers. What a message brings with it is written in its `context`."""
    session = await front.sessions.write_state(caller, session_id, body.state, user, expected)
    mark(response, session)
    return SessionState(session_id=session.id, revision=session.revision, state=dict(redactor_of(request).state(session)))


@router.post(
    "/sessions/{session_id}/rewind",
    summary="Take a session back",
    response_model=SessionShown,
    response_description="The session as it is then.",
    responses={**problems(404, 409, 412, body=True), **_FOUND},
)
async def rewind_session(
    session_id: SessionId,
    body: RewindSession,
    request: Request,
    response: Response,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    expected: IfMatch = None,
) -> SessionShown:
    """Back to before that invocation. What is taken back stays in the log, hidden.

    Artifacts, and state that begins with `user:` or `app:`, stay as they are.
    """
    session = await front.sessions.rewind(caller, session_id, body.invocation_id, user, expected)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.post(
    "/sessions/{session_id}/fork",
    summary="Copy a session",
    status_code=201,
    response_model=SessionShown,
    response_description="The copy.",
    responses={**problems(404, 409, 412, body=True), **_CREATED},
)
async def fork_session(
    session_id: SessionId,
    body: ForkSession,
    request: Request,
    response: Response,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    expected: IfMatch = None,
) -> SessionShown:
    """A new session of the same user with what can be seen of the log, or what came before an invocation; artifacts, too."""
    session = await front.sessions.fork(caller, session_id, body.id, body.before_invocation_id, user, expected)
    response.headers["Location"] = _place(request, session, user)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.delete(
    "/sessions/{session_id}",
    summary="Delete a session",
    status_code=204,
    response_class=Response,
    response_description="There is nothing left of it.",
    responses=problems(409, 412),
)
async def delete_session(
    session_id: SessionId, front: TheFront, caller: TheCaller, user: User = None, expected: IfMatch = None
) -> None:
    """All that is kept of it: log, inbox, decisions, artifacts. Not while it answers. What is not there is deleted as well."""
    await front.sessions.delete(caller, session_id, user, expected)


@router.delete(
    "/users/{user_id:path}",
    summary="Delete a user",
    status_code=204,
    response_class=Response,
    response_description="There is nothing left of the user.",
    responses=problems(409),
)
async def delete_user(user_id: UserId, front: TheFront, caller: TheCaller) -> None:
    """All that is kept of a user: sessions, state, artifacts. Credentials stay as they are."""
    await front.sessions.delete_user(caller, user_id)


def _place(request: Request, session: Session, user: str | None) -> str:
    """The session's address, on this server."""
    path = f"{request.url.path.partition('/sessions')[0]}/sessions/{quote(session.id, safe='')}"
    return path if user is None else f"{path}?user={quote(user, safe='')}"
