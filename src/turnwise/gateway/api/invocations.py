"""Invocations: looked at, read, stopped, answered and made anew."""

from typing import Annotated

from fastapi import Body, Query, Request, Response

from turnwise.facts.content import ToolResultPart
from turnwise.gateway.api.answers import answer_of, read_answer
from turnwise.gateway.api.conditions import IfMatch
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.messages import ANSWERED, answered
from turnwise.gateway.api.openapi import STREAM, api_router
from turnwise.gateway.api.parameters import InvocationId, Limit, SessionId, User, Wait
from turnwise.gateway.api.stream import stream, wants_stream
from turnwise.gateway.front import TheCaller, TheFront, redactor_of
from turnwise.gateway.services.invocations import WaitAnswer
from turnwise.gateway.services.sessions import Window
from turnwise.wire.bounds import MOST_SEQUENCE
from turnwise.wire.messages import Answer, AnswerWithResult, AnswerWithText, AnswerWithWord, AnyAnswer, Stopping
from turnwise.wire.resources import EventPage

router = api_router("invocations")
_AT = "/sessions/{session_id}/invocations/{invocation_id}"


@router.get(
    _AT,
    summary="Get an invocation",
    response_model=Answer,
    response_description="What became of it.",
    responses=problems(404, 409),
)
async def get_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    wait: Wait = False,
) -> Answer:
    """An invocation with all its messages, as far as it is now, or with `wait=true` when it ends, or waits for the user."""
    if not wait:
        reading = await front.invocations.now(caller, session_id, invocation_id, user)
        return read_answer(session_id, reading, redactor_of(request))
    invocation = await front.messages.attach(caller, session_id, invocation_id, user)
    return answer_of(invocation, await invocation.result(), redactor_of(request))


@router.get(
    f"{_AT}/events",
    summary="Read an invocation",
    response_model=EventPage,
    response_description="Its events.",
    responses={**problems(404, 409), 200: {"content": STREAM}},
)
async def list_invocation_events(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    after: Annotated[int, Query(ge=0, le=MOST_SEQUENCE, description="Only events with higher numbers.")] = 0,
    limit: Limit = 50,
) -> EventPage | Response:
    """A page of its events, those of attempts that were given up among them.

    Whoever accepts `text/event-stream` gets all that are stored above `Last-Event-ID`, then those that come, pieces of
    answers among them, until it ends or waits: so a reader that was cut off goes on where it was.
    """
    if wants_stream(request):
        return stream(front, request, await front.messages.attach(caller, session_id, invocation_id, user))
    await front.invocations.now(caller, session_id, invocation_id, user)
    window = Window(after=after, limit=limit, invocation_id=invocation_id, hidden=True)
    page, view = await front.sessions.events(caller, session_id, window, user), redactor_of(request)
    return EventPage(events=[view.event(event) for event in page.events], next=page.next)


@router.post(
    f"{_AT}/cancel",
    summary="Stop an invocation",
    response_model=Stopping,
    response_description="It has ended.",
    responses={**problems(404), 202: {"model": Stopping, "description": "It was told to stop."}},
)
async def cancel_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    response: Response,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    wait: Annotated[bool, Query(description="Whether to wait until it has ended.")] = True,
) -> Stopping:
    """Stop it, wherever it runs, or give up what it waits for. One that has ended stays as it is. With `wait=false`: 202."""
    reading = await front.invocations.cancel(caller, session_id, invocation_id, user, wait=wait)
    response.status_code = 200 if reading.state == "ended" else 202
    end = reading.result.end if reading.result else None
    return Stopping(session_id=session_id, invocation_id=invocation_id, state=reading.state, end=end)


@router.post(
    f"{_AT}/answer",
    summary="Answer what it waits for",
    response_model=Answer,
    response_description="What became of that message.",
    responses={**problems(404, 409, 502, body=True), **ANSWERED},
)
async def answer_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    body: Annotated[AnyAnswer, Body()],
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    wait: Wait = True,
) -> Answer | Response:
    """The invocation asked, or wants a tool's result, or leave to call one: see its `waits`. It goes on with this answer.

    It is a message like any other, and the same again is the same message: answer it as often as you like.
    """
    invocation = await front.invocations.answer(caller, session_id, invocation_id, _given(body), user)
    return await answered(front, request, invocation, wait=wait)


@router.post(
    f"{_AT}/regenerate",
    summary="Answer once more",
    response_model=Answer,
    response_description="What became of it this time.",
    responses={**problems(404, 409, 412, 502), **ANSWERED},
)
async def regenerate_answer(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    wait: Wait = True,
    expected: IfMatch = None,
) -> Answer | Response:
    """Take the session back to before that invocation, and answer its message again. Not idempotent."""
    invocation = await front.messages.regenerate(caller, session_id, invocation_id, user, expected)
    return await answered(front, request, invocation, wait=wait)


def _given(body: AnswerWithText | AnswerWithResult | AnswerWithWord) -> WaitAnswer:
    if isinstance(body, AnswerWithText):
        return WaitAnswer(body.call_id, body.text, id=body.id)
    if isinstance(body, AnswerWithWord):
        return WaitAnswer(body.call_id, body.approved, body.reason, body.id)
    part = ToolResultPart(call_id=body.call_id, result=body.result, failed=body.failed)
    return WaitAnswer(body.call_id, part, id=body.id)
