"""Parts of what is said, as the ADK writes them. Pure."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator

from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.gateway.adk.shape import Blob, FileData, FunctionCall, FunctionResponse, Part
from turnwise.tools.reserved import CONFIRM

CONFIRMATION = "adk_request_confirmation"
"""The tool by which the ADK asks a person for leave."""


def parts_of(content: Content, key: SessionKey, *, partial: bool) -> list[Part]:
    """The parts of what was said in that session. Of calls there is nothing before they are whole."""
    return list(_parts(content, key, partial=partial))


def _parts(content: Content, key: SessionKey, *, partial: bool) -> Iterator[Part]:
    speaks = bool(content.text)
    for part in content.parts:
        if isinstance(part, TextPart):
            yield Part(text=part.text)
        elif isinstance(part, ThinkingPart) and part.text:
            yield Part(text=part.text, thought=True)
        elif isinstance(part, BlobPart):
            yield Part(inline_data=Blob(data=bytes_out(part.data), mime_type=part.mime_type, display_name=part.name))
        elif isinstance(part, ArtifactPart):
            uri = uri_of(key, part.name, part.version)
            yield Part(file_data=FileData(file_uri=uri, mime_type=part.mime_type, display_name=part.title or part.name))
        elif isinstance(part, DataPart) and not part.private and not speaks:
            yield Part(text=to_json(part.data).decode())
        elif isinstance(part, ToolCallPart) and not partial:
            yield Part(function_call=_call(part, content))
        elif isinstance(part, ToolResultPart):
            yield Part(function_response=_response(part))


def bytes_out(data: bytes) -> str:
    """Base64 in the alphabet in which the ADK writes it."""
    return urlsafe_b64encode(data).decode()


def uri_of(key: SessionKey, name: str, version: int | None) -> str:
    """The ADK's name for an artifact, in which nothing is escaped; `version` is ours, None = the latest."""
    whose = f"artifact://apps/{key.app}/users/{key.user}"
    where = whose if name.startswith(USER_PREFIX) else f"{whose}/sessions/{key.id}"
    return f"{where}/artifacts/{name}/versions/{'latest' if version is None else version_out(version)}"


def version_out(version: int) -> int:
    """A version of ours, which begin with 1, as the ADK counts, from 0 on."""
    return version - 1


def version_in(version: int) -> int:
    """The other way round."""
    return version + 1


def _call(part: ToolCallPart, content: Content) -> FunctionCall:
    if part.tool != CONFIRM:
        args: dict[str, JsonValue] = part.arguments if part.raw is None else {"raw": part.raw}
        return FunctionCall(id=part.call_id, name=part.tool, args=args)
    asked = part.arguments
    original: dict[str, JsonValue] = {"id": asked.get("call"), "name": asked.get("tool"), "args": asked.get("arguments", {})}
    wanted: dict[str, JsonValue] = {"hint": content.text, "confirmed": False}
    return FunctionCall(id=part.call_id, name=CONFIRMATION, args={"originalFunctionCall": original, "toolConfirmation": wanted})


def _response(part: ToolResultPart) -> FunctionResponse:
    result = part.result
    if part.tool == CONFIRM:
        approved = result.get("approved") if isinstance(result, dict) else result
        return FunctionResponse(id=part.call_id, name=CONFIRMATION, response={"confirmed": approved is True})
    if part.failed:
        response: dict[str, JsonValue] = {"error": result}
    else:
        response = result if isinstance(result, dict) else {} if result is None else {"result": result}
    return FunctionResponse(id=part.call_id, name=part.tool, response=response)
