"""The route `POST /v1/chat/completions`, and the conversation that the messages of a request hold."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header, Request, Response
from pydantic import JsonValue
from starlette.responses import JSONResponse

from turnwise.facts.content import Content, DataPart, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.messages import MessageContext
from turnwise.gateway.front import STREAM, Front, IdempotencyKey, TheFront, TheServices, User, redactor_of, services_of
from turnwise.gateway.openai.chat.schema import (
    ChatBody,
    ChatCompletion,
    ChatMessage,
    ContentPart,
    Head,
    ToolCall,
    check_supported,
)
from turnwise.gateway.openai.chat.stream import completion_head, completion_of, failure_of, open_calls, stream
from turnwise.gateway.openai.errors import Where, error_response, invalid_parameter, refusals, unsupported_tool_error
from turnwise.gateway.openai.models import agent_of_model
from turnwise.gateway.services import Services
from turnwise.gateway.services.conversations import ConversationRequest
from turnwise.gateway.shared.content import audio_of, blob_of, call_of, file_of, result_value, why_no_file
from turnwise.gateway.shared.exchanges import Exchanges, PastTurn, joined_instructions
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


class ChatHistory(NamedTuple):
    """The conversation in a request."""

    past: tuple[PastTurn, ...]
    """The past turns, oldest first."""
    message: Content
    """The new message."""
    instructions: DataPart | None
    """The texts of system and developer messages."""


def read_history(messages: Sequence[ChatMessage]) -> ChatHistory:
    """Returns the conversation in the messages. Everything after the last assistant message is the new message.

    User messages without an assistant message between them are merged.

    Raises:
        RequestInvalid: No message follows the last assistant message, or a part is not supported.
    """
    exchanges, instructions = Exchanges(), list[str]()
    for place, message in enumerate(messages):
        _read(message, ("messages", place), exchanges, instructions)
    if exchanges.answered:
        where: Where = ("messages", len(messages) - 1)
        raise invalid_parameter(
            where, "Nothing follows the assistant's last message.", fix="Send a user's or a tool's message last."
        )
    return ChatHistory(
        tuple(exchanges.past), Content(role="user", parts=tuple(exchanges.sent)), joined_instructions(instructions)
    )


def _read(message: ChatMessage, where: Where, exchanges: Exchanges, instructions: list[str]) -> None:
    """Adds one message to the past exchanges or, if it is a system message, to the instructions."""
    content = (*where, "content")
    if message.role in ("system", "developer"):
        instructions.append(_text(message.content, content))
    elif message.role == "assistant":
        calls = [_call(call, (*where, "tool_calls", place)) for place, call in enumerate(message.tool_calls or ())]
        exchanges.answer(_text(message.content, content), message.refusal or "", calls=calls)
    elif message.role == "tool":
        exchanges.send([_result(message, where)])
    else:
        exchanges.send(_part(part, (*content, place)) for place, part in enumerate(message.content))


def _text(parts: Sequence[ContentPart], where: Where) -> str:
    """Returns the parts as text; messages of roles other than user may contain only text."""
    texts = []
    for place, part in enumerate(parts):
        text = _part_text(part)
        if text is None:
            raise invalid_parameter(
                (*where, place, "type"), "A message of this role may contain only text.", fix="Send a text."
            )
        texts.append(text)
    return "\n".join(texts)


def _part_text(part: ContentPart) -> str | None:
    if part.type == "text":
        return part.text
    return part.refusal if part.type == "refusal" else None


def _part(part: ContentPart, where: Where) -> Part:
    """Converts one content part. Raises for an unknown type, an invalid file, or one that would have to be fetched."""
    text = _part_text(part)
    place: Where
    if text is not None:
        return TextPart(text=text)
    if part.type == "image_url" and part.image_url is not None:
        url, place = part.image_url.url, ("image_url", "url")
        blob = blob_of(url)
        if blob is None:
            problem, fix = why_no_file(url, "image")
            raise invalid_parameter((*where, *place), problem, fix=fix)
    elif part.type == "file" and part.file is not None:
        data, name, place = part.file.file_data, part.file.filename, ("file", "file_data")
        if data is None:
            raise invalid_parameter((*where, "file"), "Stored and remote files are not supported.", fix="Send 'file_data'.")
        blob = file_of(data, name)
    elif part.type == "input_audio" and part.input_audio is not None:
        place = ("input_audio",)
        blob = audio_of(part.input_audio.data, part.input_audio.format)
    else:
        known = "text, image_url, file or input_audio"
        raise invalid_parameter((*where, "type"), "This content part is not supported.", fix=f"Send {known}, with its content.")
    if blob is None:
        problem = "This is not a file in base64. URLs are not fetched."
        raise invalid_parameter((*where, *place), problem, fix="Send data:<type>;base64,…; audio as base64 of mp3 or wav.")
    return blob


def _result(message: ChatMessage, where: Where) -> ToolResultPart:
    if not message.tool_call_id:
        raise invalid_parameter(
            (*where, "tool_call_id"), "The tool message has no tool_call_id.", fix="Send the id of the call."
        )
    return ToolResultPart(call_id=message.tool_call_id, result=result_value(_text(message.content, (*where, "content"))))


def _call(call: ToolCall, where: Where) -> ToolCallPart:
    if call.type == "function" and call.function is None:
        raise invalid_parameter((*where, "function"), "The call has no function.", fix="Send the call as received.")
    if call.function is None or call.type != "function":
        raise unsupported_tool_error((*where, "type"), call.type)
    return call_of(call.id, call.function.name, call.function.arguments)
