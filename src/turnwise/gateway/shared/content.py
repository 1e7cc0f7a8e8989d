"""Content that protocols share: files as data URLs or base64, and the caller's tools, calls and results as text.

Nothing is fetched from other addresses.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from mimetypes import guess_type
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_to_bytes

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts.content import BlobPart, ToolCallPart
from turnwise.facts.messages import OfferedTool


def offered_tool(name: str, description: str | None, parameters: dict[str, JsonValue] | None) -> OfferedTool:
    """Returns the tool that the caller offers."""
    given: dict[str, Any] = {"name": name, "description": description or ""}
    return OfferedTool(**given if parameters is None else {**given, "parameters": parameters})


def call_of(call_id: str, tool: str, written: str) -> ToolCallPart:
    """Returns the call with these JSON arguments; arguments that are not a JSON object are kept as text."""
    try:
        arguments = from_json(written or "{}", allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: the text ends with half a surrogate pair
        arguments = None
    if isinstance(arguments, dict):
        return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments)
    return ToolCallPart(call_id=call_id, tool=tool, raw=written)


def arguments_of(call: ToolCallPart) -> str:
    """Returns the call's arguments as text."""
    return to_json(call.arguments).decode() if call.raw is None else call.raw


def result_value(output: str) -> JsonValue:
    """Returns a tool's output: parsed if it is a JSON object or list, otherwise as text."""
    if output.lstrip()[:1] not in ("{", "["):
        return output
    try:
        value: JsonValue = from_json(output, allow_inf_nan=False)
    except (ValueError, TypeError):
        return output
    return value


DEFAULT_TYPE, PLAIN = "application/octet-stream", "text/plain"
AUDIO: Mapping[object, str] = MappingProxyType({"mp3": "audio/mpeg", "wav": "audio/wav"})

_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")


def blob_of(url: str, name: str | None = None) -> BlobPart | None:
    """Returns the file in a data URL; None for another URL or an invalid one."""
    scheme, _, rest = url.partition(":")
    about, comma, data = rest.partition(",")
    mime_type, *parameters = (part.strip() for part in about.split(";"))
    if scheme.lower() != "data" or not comma or not (mime_type == "" or _TYPE.fullmatch(mime_type)):
        return None
    if not (parameters and parameters[-1].lower() == "base64"):
        return BlobPart(data=unquote_to_bytes(data), mime_type=mime_type or PLAIN, name=name)
    return from_base64(data, mime_type or DEFAULT_TYPE, name)


def why_no_file(url: str, kind: str) -> tuple[str, str]:
    """Returns the problem and the fix for a URL that `blob_of` rejects. `kind` names the file, such as `image`."""
    example = {"image": "image/png", "file": "application/pdf"}.get(kind, "<type>")
    fix = f"Send the {kind} itself as a data URL: data:{example};base64,…."
    if url[:5].lower() == "data:":
        return "This data URL cannot be read.", fix
    return f"URLs of {kind}s are not fetched." if "://" in url else f"This is no {kind}.", fix


def from_base64(data: str, mime_type: str = DEFAULT_TYPE, name: str | None = None) -> BlobPart | None:
    """Returns the file with these base64 bytes; None if they are invalid."""
    try:
        return BlobPart(data=base64.b64decode(data, validate=True), mime_type=mime_type, name=name)
    except (binascii.Error, ValueError):
        return None


def file_of(given: str, name: str | None) -> BlobPart | None:
    """Returns the file in a data URL, or in base64 with a type guessed from its name; None if it is invalid."""
    return blob_of(given, name) if ":" in given else from_base64(given, guess_type(name or "")[0] or DEFAULT_TYPE, name)


def audio_of(data: str, form: str) -> BlobPart | None:
    """Returns the audio in base64; None if it is invalid or the format is unknown."""
    return from_base64(data, AUDIO[form]) if form in AUDIO else None


def data_url(blob: BlobPart) -> str:
    """Returns the file as a data URL."""
    return f"data:{blob.mime_type};base64,{base64.b64encode(blob.data).decode()}"
