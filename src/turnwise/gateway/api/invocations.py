"""Routes that read, cancel, answer and regenerate invocations."""

from typing import Annotated

from fastapi import Body, Query, Request, Response

from turnwise.facts.content import ToolResultPart
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.messages import ANSWERED, answered, stream
from turnwise.gateway.api.parameters import IfMatch, InvocationId, Limit, SessionId, UserServices, Wait, wants_stream
from turnwise.gateway.api.representations import answer_of, read_answer
from turnwise.gateway.front import TheFront, redactor_of
from turnwise.gateway.openapi import STREAM, api_router
from turnwise.gateway.services.invocations import WaitAnswer
from turnwise.gateway.services.sessions import Window
from turnwise.wire.messages import MOST_SEQUENCE, Answer, AnswerWithResult, AnswerWithText, AnswerWithWord, AnyAnswer, Stopping
from turnwise.wire.resources import EventPage

router = api_router("invocations")
_AT = "/sessions/{session_id}/invocations/{invocation_id}"


@router.get(
    _AT,
    summary="Get an invocation",
    response_model=Answer,
    response_description="The invocation's state and answer.",
    responses=problems(404, 409),
)
async def get_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    services: UserServices,
    wait: Wait = False,
) -> Answer:
    """Returns the state of an invocation, across all its messages.

    With `wait=true` the response comes when the invocation has ended or waits for the user.
    """
    if not wait:
        reading = await services.invocations.now(session_id, invocation_id)
        return read_answer(session_id, reading, redactor_of(request))
    invocation = await services.messages.attach(session_id, invocation_id)
    return answer_of(invocation, await invocation.result(), redactor_of(request))


@router.get(
    f"{_AT}/events",
    summary="Read an invocation",
    response_model=EventPage,
    response_description="A page of the invocation's events.",
    responses={**problems(404, 409), 200: {"content": STREAM}},
)
async def list_invocation_events(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    front: TheFront,
    services: UserServices,
    after: Annotated[int, Query(ge=0, le=MOST_SEQUENCE, description="Only events with a higher sequence number.")] = 0,
    limit: Limit = 50,
    blobs: Annotated[bool, Query(description="Whether to include the data of blobs above 64 KiB.")] = False,
) -> EventPage | Response:
    """Lists the events of an invocation, including those of abandoned attempts.

    A page also ends at 1 MiB. Without `blobs`, a blob above 64 KiB has its `size` in place of its data.

    With `Accept: text/event-stream` the response is a stream. It starts with the stored events above `Last-Event-ID`,
    then sends new events and partial text until the invocation ends or waits. A client that lost its connection
    resumes the stream by sending `Last-Event-ID`.
    """
    if wants_stream(request):
        return stream(front, request, await services.messages.attach(session_id, invocation_id))
    await services.invocations.now(session_id, invocation_id)
    window = Window(after=after, limit=limit, invocation_id=invocation_id, hidden=True)
    page, view = await services.sessions.events(session_id, window, blobs=blobs), redactor_of(request)
    return EventPage(events=[view.event(event) for event in page.events], next=page.next)


@router.post(
    f"{_AT}/cancel",
    summary="Cancel an invocation",
    response_model=Stopping,
    response_description="The invocation has ended.",
    responses={**problems(404), 202: {"model": Stopping, "description": "Cancellation is requested."}},
)
async def cancel_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    response: Response,
    services: UserServices,
    wait: Annotated[bool, Query(description="Whether to respond only when the invocation has ended.")] = True,
) -> Stopping:
    """Cancels an invocation in whichever process it runs; an invocation that waits ends, too.

    An invocation that has ended does not change. With `wait=false` the response may be 202, before the invocation has
    ended.
    """
    reading = await services.invocations.cancel(session_id, invocation_id, wait=wait)
    response.status_code = 200 if reading.state == "ended" else 202
    end = reading.result.end if reading.result else None
    return Stopping(session_id=session_id, invocation_id=invocation_id, state=reading.state, end=end)


@router.post(
    f"{_AT}/answer",
    summary="Answer an open wait",
    response_model=Answer,
    response_description="The answer to that message.",
    responses={**problems(404, 409, 502, body=True), **ANSWERED},
)
async def answer_invocation(
    session_id: SessionId,
    invocation_id: InvocationId,
    body: Annotated[AnyAnswer, Body()],
    request: Request,
    front: TheFront,
    services: UserServices,
    wait: Wait = True,
) -> Answer | Response:
    """Answers an open wait of the invocation, and the invocation continues.

    A wait is a question, a tool call whose result is missing, or an approval request: see the invocation's `waits`.
    The request is idempotent, so it is safe to repeat.
    """
    invocation = await services.invocations.answer(session_id, invocation_id, _wait_answer(body))
    return await answered(front, request, invocation, wait=wait)


@router.post(
    f"{_AT}/regenerate",
    summary="Regenerate an answer",
    response_model=Answer,
    response_description="The new answer.",
    responses={**problems(404, 409, 412, 502), **ANSWERED},
)
async def regenerate_answer(
    session_id: SessionId,
    invocation_id: InvocationId,
    request: Request,
    front: TheFront,
    services: UserServices,
    wait: Wait = True,
    expected: IfMatch = None,
) -> Answer | Response:
    """Rewinds the session to before the invocation and answers its message again. Not idempotent."""
    invocation = await services.messages.regenerate(session_id, invocation_id, expected)
    return await answered(front, request, invocation, wait=wait)


def _wait_answer(body: AnswerWithText | AnswerWithResult | AnswerWithWord) -> WaitAnswer:
    """Converts the body of an answer (text, approval or tool result) for the service."""
    if isinstance(body, AnswerWithText):
        return WaitAnswer(body.call_id, body.text, id=body.id)
    if isinstance(body, AnswerWithWord):
        return WaitAnswer(body.call_id, body.approved, body.reason, body.id)
    part = ToolResultPart(call_id=body.call_id, result=body.result, failed=body.failed)
    return WaitAnswer(body.call_id, part, id=body.id)
