"""Converts content to the ADK's parts and back. Pure."""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlencode

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part as OurPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import USER
from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.gateway.adk.schema import Blob, FileData, FunctionCall, FunctionResponse, MessageContent, Part, PastEvent
from turnwise.gateway.services.sessions import left_out_bytes
from turnwise.gateway.shared.content import DEFAULT_TYPE
from turnwise.runner import PastExchange
from turnwise.tools.names import CONFIRM

CONFIRMATION = "adk_request_confirmation"
"""The tool by which the ADK asks for an approval."""
Where = tuple[str | int, ...]
MESSAGE: Where = ("body", "newMessage")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def parts_of(content: Content, key: SessionKey, *, partial: bool, sequence: int | None = None) -> list[Part]:
    """Returns content as ADK parts. Partial content has no tool calls.

    Args:
        sequence: The number of the event, by which the data of a large blob is found.
    """
    return list(_parts(content, key, partial=partial, sequence=sequence))


def _parts(content: Content, key: SessionKey, *, partial: bool, sequence: int | None) -> Iterator[Part]:
    """Yields the content's parts in the ADK's form. Large blobs and artifacts become file URIs."""
    has_text = bool(content.text)
    for part in content.parts:
        if isinstance(part, TextPart):
            yield Part(text=part.text)
        elif isinstance(part, ThinkingPart) and part.text:
            yield Part(text=part.text, thought=True)
        elif isinstance(part, BlobPart) and left_out_bytes(part) is not None:
            uri = event_path(key, sequence or 1)
            yield Part(file_data=FileData(file_uri=uri, mime_type=part.mime_type, display_name=part.name))
        elif isinstance(part, BlobPart):
            yield Part(inline_data=Blob(data=encode_bytes(part.data), mime_type=part.mime_type, display_name=part.name))
        elif isinstance(part, ArtifactPart):
            uri = artifact_uri(key, part.name, part.version)
            yield Part(file_data=FileData(file_uri=uri, mime_type=part.mime_type, display_name=part.title or part.name))
        elif isinstance(part, DataPart) and not part.private and not has_text:
            yield Part(text=to_json(part.data).decode())
        elif isinstance(part, ToolCallPart) and not partial:
            yield Part(function_call=_call(part, content))
        elif isinstance(part, ToolResultPart):
            yield Part(function_response=_response(part))


def encode_bytes(data: bytes) -> str:
    """Encodes bytes in URL-safe base64, as the ADK does."""
    return urlsafe_b64encode(data).decode()


def event_path(key: SessionKey, sequence: int) -> str:
    """Returns the path in Turnwise's API of an event with the data of its blobs."""
    query = urlencode({"after": sequence - 1, "limit": 1, "blobs": "true", "user": key.user})
    return f"/api/v1/sessions/{quote(key.id, safe='')}/events?{query}"


def artifact_uri(key: SessionKey, name: str, version: int | None) -> str:
    """Returns the ADK's URI of an artifact, unescaped. version: Turnwise's number; None = the latest."""
    user_uri = f"artifact://apps/{key.app}/users/{key.user}"
    owner_uri = user_uri if name.startswith(USER_PREFIX) else f"{user_uri}/sessions/{key.id}"
    return f"{owner_uri}/artifacts/{name}/versions/{'latest' if version is None else to_adk_version(version)}"


def to_adk_version(version: int) -> int:
    """Converts a version number: Turnwise counts from 1, the ADK from 0."""
    return version - 1


def from_adk_version(version: int) -> int:
    """Converts a version number of the ADK."""
    return version + 1


def _call(part: ToolCallPart, content: Content) -> FunctionCall:
    """Converts a tool call; an approval request becomes the ADK's confirmation call."""
    if part.tool != CONFIRM:
        args: dict[str, JsonValue] = part.arguments if part.raw is None else {"raw": part.raw}
        return FunctionCall(id=part.call_id, name=part.tool, args=args)
    asked = part.arguments
    original: dict[str, JsonValue] = {"id": asked.get("call"), "name": asked.get("tool"), "args": asked.get("arguments", {})}
    wanted: dict[str, JsonValue] = {"hint": content.text, "confirmed": False}
    return FunctionCall(id=part.call_id, name=CONFIRMATION, args={"originalFunctionCall": original, "toolConfirmation": wanted})


def _response(part: ToolResultPart) -> FunctionResponse:
    """Converts a tool result; an approval becomes the ADK's confirmation response."""
    result = part.result
    if part.tool == CONFIRM:
        approved = result.get("approved") if isinstance(result, dict) else result
        return FunctionResponse(id=part.call_id, name=CONFIRMATION, response={"confirmed": approved is True})
    if part.failed:
        response: dict[str, JsonValue] = {"error": result}
    else:
        response = result if isinstance(result, dict) else {} if result is None else {"result": result}
    return FunctionResponse(id=part.call_id, name=part.tool, response=response)


def message_of(message: MessageContent) -> Content:
    """Converts the message of a run. Raises RequestInvalid."""
    parts = message.parts or ()
    return Content(role="user", parts=tuple(_part(part, (*MESSAGE, "parts", index)) for index, part in enumerate(parts)))


def past_exchanges(events: Sequence[PastEvent]) -> list[PastExchange]:
    """Converts imported events to past exchanges of text and files.

    Raises:
        RequestInvalid: An event holds tool calls or results, which could be forged, or actions.
    """
    past: list[PastExchange] = []
    for index, event in enumerate(events):
        where: Where = ("body", "events", index)
        if event.long_running_tool_ids or any(event.actions.values() if event.actions else ()):
            raise RequestInvalid(
                "An imported event cannot have actions or waits.", fix="Send its content alone.", where=(*where, "actions")
            )
        parts = tuple(_past_part(part, (*where, "content", "parts", at)) for at, part in enumerate(_parts_of(event)))
        if not parts:
            continue
        if event.author == USER:
            past.append(PastExchange(Content(role="user", parts=parts)))
        else:
            before = past.pop() if past else PastExchange(None)
            past.append(before._replace(said=(*before.said, Content(parts=parts))))
    return past


def decode_bytes(blob: Blob, where: Where) -> bytes:
    """Decodes base64 of either alphabet, with or without padding. Raises RequestInvalid."""
    try:
        data = blob.data.encode("ascii").translate(_STANDARD)
        return b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except (Error, ValueError):
        raise RequestInvalid("This is not base64.", fix="Send the bytes in base64.", where=(*where, "data")) from None


def _parts_of(event: PastEvent) -> Sequence[Part]:
    return () if event.partial or event.content is None else event.content.parts or ()


def _past_part(part: Part, where: Where) -> OurPart:
    if part.function_call or part.function_response:
        problem = "Tool calls and results cannot be imported."
        raise RequestInvalid(problem, fix="Send their content as text.", where=where)
    return _part(part, where)


def _part(part: Part, where: Where) -> OurPart:
    """Converts one part of a caller's message. Raises RequestInvalid for an unsupported kind."""
    if part.function_response is not None:
        return _result(part.function_response, (*where, "functionResponse"))
    if part.text is not None:
        return TextPart(text=part.text)
    if part.inline_data is not None:
        blob = part.inline_data
        data = decode_bytes(blob, (*where, "inlineData"))
        return BlobPart(data=data, mime_type=blob.mime_type or DEFAULT_TYPE, name=blob.display_name)
    problem = "This kind of part is not supported."
    raise RequestInvalid(problem, fix="Send a text, inlineData or a functionResponse. Nothing is fetched.", where=where)


def _result(response_part: FunctionResponse, where: Where) -> ToolResultPart:
    """Converts a function response of a caller; a confirmation becomes an approval. Raises RequestInvalid without an id."""
    if not response_part.id:
        raise RequestInvalid("The tool result has no call id.", fix="Send the id of the call.", where=(*where, "id"))
    response: JsonValue = response_part.response
    if response_part.name == CONFIRMATION:
        return ToolResultPart(
            call_id=response_part.id, tool=CONFIRM, result={"approved": _is_confirmed(response_part.response or {})}
        )
    return ToolResultPart(call_id=response_part.id, tool=response_part.name or "", result=response)


def _is_confirmed(response: dict[str, JsonValue]) -> bool:
    """Returns whether the response approves. ADK clients may wrap it as JSON text."""
    answer: JsonValue = response
    wrapped = response.get("response")
    if len(response) == 1 and isinstance(wrapped, str):
        try:
            answer = from_json(wrapped)
        except (ValueError, TypeError):
            return False
    return isinstance(answer, dict) and answer.get("confirmed") is True
