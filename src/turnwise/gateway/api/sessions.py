"""Routes that create, list, read, rewind, fork and delete sessions."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request, Response

from turnwise.facts.sessions import Session
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import ETAG, After, IfMatch, Limit, SessionId, UserId, UserServices, mark
from turnwise.gateway.api.representations import recent_session, session_details, session_summary
from turnwise.gateway.front import TheServices, redactor_of
from turnwise.gateway.openapi import LOCATION, Responses, api_router, link
from turnwise.gateway.services.sessions import Window
from turnwise.wire.messages import MOST_CHARACTERS, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT
from turnwise.wire.resources import (
    CreateSession,
    EventPage,
    ForkSession,
    RecentSessionPage,
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
    "message": link("send_message", "Send a message to the session.", _THIS),
    "events": link("list_events", "The session's events.", _THIS),
    "state": link("get_state", "The session's state.", _THIS),
    "write": link("write_state", "Write to the session's state.", _THIS),
    "artifacts": link("list_artifacts", "The session's artifacts.", _THIS),
    "decisions": link("search_decisions", "The session's selection decisions.", _THIS),
    "fork": link("fork_session", "Fork the session.", _THIS),
    "delete": link("delete_session", "Delete the session.", _THIS),
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
async def create_session(body: CreateSession, request: Request, response: Response, services: UserServices) -> SessionShown:
    """Creates an empty session, optionally with an initial state.

    State keys that begin with `user:` apply to all sessions of the user. Calling this is optional: the first message
    creates a missing session.
    """
    session = await services.sessions.create(body.id, body.state)
    response.headers["Location"] = _place(request, session, services.scope.named)
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
    services: UserServices,
    all_users: Annotated[bool, Query(description="Lists the sessions of all users; operators only.")] = False,
    after: After = None,
    limit: Limit = 50,
) -> SessionPage:
    """Lists sessions of the caller, of `user`, or of all users, sorted by user and id. Rows contain neither state nor
    events.
    """
    page = await services.sessions.page(everybody=all_users, after=after, limit=limit)
    return SessionPage(sessions=[session_summary(info) for info in page.items], next=page.next)


@router.get(
    "/recent-sessions",
    summary="List recent sessions",
    response_model=RecentSessionPage,
    response_description="A page of sessions, the most recently used first.",
    responses=problems(),
)
async def list_recent_sessions(
    request: Request,
    services: UserServices,
    all_users: Annotated[bool, Query(description="Lists the sessions of all users; operators only.")] = False,
    words: Annotated[
        str, Query(max_length=MOST_CHARACTERS, description="Only sessions in which a message has all these words.")
    ] = "",
    state: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MOST_CHARACTERS,
            pattern=PLAIN,
            description="Only sessions whose newest invocation has this state: `running`, `waiting`, or the reason of its end.",
        ),
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> RecentSessionPage:
    """Lists sessions by their newest decision. A session without one is not listed.

    The work for one page is bounded: with `words` or `state` a page may have few sessions, or none, and a `next` all
    the same. With `words` a session may come again on a later page.
    """
    page = await services.sessions.recent(everybody=all_users, words=words, state=state, after=after, limit=limit)
    view = redactor_of(request)
    return RecentSessionPage(sessions=[recent_session(each, view) for each in page.items], next=page.next)


@router.get(
    "/sessions/{session_id}",
    summary="Get a session",
    response_model=SessionShown,
    response_description="The session.",
    responses={**problems(404), **_FOUND},
)
async def get_session(session_id: SessionId, request: Request, response: Response, services: UserServices) -> SessionShown:
    """Returns the status of a session: whether it is busy, its active agent, its open waits, and why it waits."""
    session = await services.sessions.get(session_id)
    mark(response, session)
    return session_details(session, redactor_of(request), await services.sessions.pending(session))


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
    services: UserServices,
    after: Annotated[int, Query(ge=0, le=MOST_SEQUENCE, description="Only events with a higher sequence number.")] = 0,
    before: Annotated[
        int | None, Query(ge=0, le=MOST_SEQUENCE, description="Only events with a lower sequence number.")
    ] = None,
    last: Annotated[
        int | None, Query(ge=1, le=MOST_ROWS, description="Returns this many of the newest events; replaces `limit`.")
    ] = None,
    limit: Limit = 50,
    invocation_id: Annotated[
        str | None,
        Query(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="Only events of this invocation."),
    ] = None,
    hidden: Annotated[
        bool, Query(description="Whether to include events that were rewound or that a crashed process left.")
    ] = False,
    blobs: Annotated[bool, Query(description="Whether to include the data of blobs above 64 KiB.")] = False,
) -> EventPage:
    """Lists the session's log. Its events are numbered from 1 without gaps. Before its first message it is empty.

    A page also ends at 1 MiB. Pass its `next` as `after` to get the following page. Without `blobs`, a blob above 64 KiB has
    its `size` in place of its data.
    """
    window = Window(after, before, last, limit, invocation_id, hidden)
    page, view = await services.sessions.events(session_id, window, blobs=blobs), redactor_of(request)
    return EventPage(events=[view.event(event) for event in page.events], next=page.next)


@router.get(
    "/sessions/{session_id}/state",
    summary="Get the state",
    response_model=SessionState,
    response_description="The state of all scopes, merged.",
    responses={**problems(404), **_STATE},
)
async def get_state(session_id: SessionId, request: Request, response: Response, services: UserServices) -> SessionState:
    """Returns the session's state, merged with the state that the user's sessions share."""
    session = await services.sessions.get(session_id)
    mark(response, session)
    return SessionState(session_id=session.id, revision=session.revision, state=dict(redactor_of(request).state(session)))


@router.patch(
    "/sessions/{session_id}/state",
    summary="Write to the state",
    response_model=SessionState,
    response_description="The new state.",
    responses={**problems(404, 409, 412, body=True), **_STATE},
)
async def write_state(
    session_id: SessionId,
    body: WriteState,
    request: Request,
    response: Response,
    services: UserServices,
    expected: IfMatch = None,
) -> SessionState:
    """Writes some keys of the session's state. Answers 409 while the session is processing a message.

    To write state together with a message, pass it in the message's `context` instead.
    """
    session = await services.sessions.write_state(session_id, body.state, expected)
    mark(response, session)
    return SessionState(session_id=session.id, revision=session.revision, state=dict(redactor_of(request).state(session)))


@router.post(
    "/sessions/{session_id}/rewind",
    summary="Rewind a session",
    response_model=SessionShown,
    response_description="The rewound session.",
    responses={**problems(404, 409, 412, body=True), **_FOUND},
)
async def rewind_session(
    session_id: SessionId,
    body: RewindSession,
    request: Request,
    response: Response,
    services: UserServices,
    expected: IfMatch = None,
) -> SessionShown:
    """Rewinds the session to before an invocation. The events after that point stay in the log, hidden.

    Artifacts and state keys that begin with `user:` or `app:` do not change.
    """
    session = await services.sessions.rewind(session_id, body.invocation_id, expected)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.post(
    "/sessions/{session_id}/fork",
    summary="Fork a session",
    status_code=201,
    response_model=SessionShown,
    response_description="The new session.",
    responses={**problems(404, 409, 412, body=True), **_CREATED},
)
async def fork_session(
    session_id: SessionId,
    body: ForkSession,
    request: Request,
    response: Response,
    services: UserServices,
    expected: IfMatch = None,
) -> SessionShown:
    """Copies the session's visible events and its artifacts to a new session of the same user.

    With `before_invocation_id` the copy contains only the events before that invocation.
    """
    session = await services.sessions.fork(session_id, body.id, body.before_invocation_id, expected)
    response.headers["Location"] = _place(request, session, services.scope.named)
    mark(response, session)
    return session_details(session, redactor_of(request))


@router.delete(
    "/sessions/{session_id}",
    summary="Delete a session",
    status_code=204,
    response_class=Response,
    response_description="The session is deleted.",
    responses=problems(409, 412),
)
async def delete_session(session_id: SessionId, services: UserServices, expected: IfMatch = None) -> None:
    """Deletes a session with its log, inbox, decisions and artifacts. Succeeds also if there is no such session.

    Answers 409 while the session is processing a message.
    """
    await services.sessions.delete(session_id, expected)


@router.delete(
    "/users/{user_id:user}",
    summary="Delete a user",
    status_code=204,
    response_class=Response,
    response_description="The user's data is deleted.",
    responses=problems(409),
)
async def delete_user(user_id: UserId, services: TheServices) -> None:
    """Erases a user: sessions, state, labels, artifacts and API keys. Tokens of an identity provider stay valid.

    Answers 409 while one of the sessions is processing a message, or while a legal hold prevents the deletion.
    """
    await services.for_user(user_id).sessions.delete_user()


def _place(request: Request, session: Session, user: str | None) -> str:
    """Returns the session's URL path on this server."""
    path = f"{request.url.path.partition('/sessions')[0]}/sessions/{quote(session.id, safe='')}"
    return path if user is None else f"{path}?user={quote(user, safe='')}"
