"""What an MCP server answered to a call, as the JSON value that a model is told."""

import base64
import binascii
from typing import TYPE_CHECKING

from pydantic import JsonValue

from turnwise.facts.errors import ArtifactError, ConfigError, ToolFailed
from turnwise.ports.tool import ToolCall

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


async def json_of(result: "CallToolResult", call: ToolCall, tool: str) -> JsonValue:
    """The structured result if there is one, else the text; a list when there is more than one piece, None for nothing.

    Images, sounds and files are saved as artifacts, and the model is told their names; without an artifact store it is
    told what there was. ToolFailed with the server's words when it says that the call failed.
    """
    if result.is_error:
        raise ToolFailed(_text_of(result) or f"{tool} failed and did not say why.")
    pieces: list[JsonValue] = [] if result.structured_content is None else [result.structured_content]
    for number, block in enumerate(result.content):
        # The text beside a structured result says the same once more.
        if block.type != "text" or result.structured_content is None:
            pieces.append(await _piece(block, f"{tool}_{call.id}_{number}", call))
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else pieces


def _text_of(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


async def _piece(block: "ContentBlock", name: str, call: ToolCall) -> JsonValue:
    from mcp_types import AudioContent, ImageContent

    if block.type == "text":
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return await _saved(block.data, block.mime_type, name, call)
    if block.type == "resource_link":
        about = {"resource": block.uri, "name": block.name, "description": block.description, "mime_type": block.mime_type}
        return {key: value for key, value in about.items() if value is not None}
    held = block.resource
    if hasattr(held, "text"):
        return {"resource": held.uri, "text": held.text}
    return {"resource": held.uri, **await _saved(held.blob, held.mime_type, name, call)}


async def _saved(encoded: str, mime_type: str | None, name: str, call: ToolCall) -> dict[str, JsonValue]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return {"note": "Something came that is no valid base64."}
    kind = mime_type or "application/octet-stream"
    told: dict[str, JsonValue] = {"mime_type": kind, "bytes": len(data)}
    try:
        info = await call.context.artifacts.save(name, data, mime_type=kind)
    except (ArtifactError, ConfigError) as error:
        return {**told, "note": f"It was not kept: {error}"}
    return {"artifact": info.name, "version": info.version, **told}
