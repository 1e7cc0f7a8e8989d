"""The route `POST /v1/chat/completions`."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import JsonValue
from starlette.responses import JSONResponse

from turnwise.facts.messages import MessageContext
from turnwise.gateway.front import STREAM, Front, IdempotencyKey, TheFront, TheServices, User, redactor_of, services_of
from turnwise.gateway.openai.chat.completion import completion_head, completion_of, failure_of, open_calls
from turnwise.gateway.openai.chat.schema import ChatBody, ChatCompletion, Head, check_supported
from turnwise.gateway.openai.chat.start import read_history
from turnwise.gateway.openai.chat.stream import stream
from turnwise.gateway.openai.errors import error_response, refusals
from turnwise.gateway.openai.models import agent_of_model
from turnwise.gateway.services import Services
from turnwise.gateway.services.conversations import ConversationRequest
from turnwise.runner import Invocation

SESSION = "X-Session-ID"
RETRIES = "X-Stainless-Retry-Count"
"""How often the client has sent this request before. OpenAI's clients set it."""
_FIELDS = ("channel", "user_kind")

router = APIRouter(tags=["openai"])

SessionHeader = Annotated[
    str | None, Header(alias=SESSION, description="The session's id; found by the conversation if omitted.")
]


@router.post(
    "/chat/completions",
    operation_id="create_chat_completion",
    response_model=ChatCompletion,
    responses={**refusals(404, 408, 409, 413, 500), 200: STREAM},
)
async def create(
    body: ChatBody,
    request: Request,
    front: TheFront,
    services: TheServices,
    session: SessionHeader = None,
    key: IdempotencyKey = None,
    user: User = None,
) -> Response:
    """Answers the last message of a conversation. `model` is `turnwise`, which selects an agent, or an agent's name.

    The conversation belongs to a session: the named one (`X-Session-ID` or `metadata.session_id`), or the one with a log that
    matches the messages. The run continues if the connection breaks.
    """
    check_supported(body)
    # The body's user counts only for a credential that acts for users.
    if user is None and services.scope.caller.acts_for_users:
        user = body.named_user
    services = services.for_user(user)
    conversation = _conversation_request(body, front, services, session, key, request)
    invocation = await services.conversations.send(conversation)
    head, headers = completion_head(invocation, body.model), _headers(invocation)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return stream(front, request, invocation, head, usage=usage, headers=headers)
    return await _completion_response(request, invocation, head, body, headers)


def _conversation_request(
    body: ChatBody,
    front: Front,
    services: Services,
    session: str | None,
    key: str | None,
    request: Request,
) -> ConversationRequest:
    """Converts the body into a conversation request. The metadata become the context and its attributes."""
    agent = agent_of_model(services, body.model)
    history = read_history(body.messages)
    metadata: dict[str, JsonValue] = dict(body.metadata or {})
    named = session if session is not None else (body.metadata or {}).get("session_id")
    metadata.pop("session_id", None)
    known = {name: metadata.pop(name) for name in _FIELDS if name in metadata}
    usual = front.runner.config
    return ConversationRequest(
        past=history.past,
        message=history.message,
        instructions=history.instructions,
        session=named,
        agent=agent,
        context=MessageContext(attributes=metadata, tools=body.offered, **known),  # type: ignore[arg-type]
        config=usual.replace(streaming=bool(body.stream), create_session=named is None or usual.create_session),
        repeated=request.headers.get(RETRIES, "0").strip() not in ("", "0"),
        key=key,
    )


async def _completion_response(
    request: Request, invocation: Invocation, head: Head, body: ChatBody, headers: dict[str, str]
) -> Response:
    """Waits for the result and returns the completion, or the error response of a failed one."""
    result = await invocation.result()
    if (failure := failure_of(result, redactor_of(request), request)) is not None:
        answer = error_response(failure)
        answer.headers.update(headers)
        return answer
    waits = await services_of(request).invocations.waits(invocation, result)
    open_ = open_calls(waits, result, redactor_of(request))
    completion = completion_of(head, invocation, result, open_, body.metadata, redactor_of(request))
    return JSONResponse(completion.model_dump(), headers=headers)


def _headers(invocation: Invocation) -> dict[str, str]:
    """Returns the header with the session's id, if a header can carry it."""
    id_ = invocation.session.id
    return {SESSION: id_} if id_.isascii() and id_.isprintable() else {}
