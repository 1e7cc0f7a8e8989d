"""What stands in messages of the protocol, as parts of ours. Nothing is fetched from anywhere."""

from collections.abc import Sequence
from typing import Any

from ag_ui.core import AudioPart, DocumentPart, ImagePart, ToolMessage, VideoPart
from ag_ui.core import TextPart as WireText
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Part, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.speech.calls import value_of
from turnwise.gateway.speech.data_urls import blob_of

AnyPart = WireText | ImagePart | AudioPart | VideoPart | DocumentPart
Where = tuple[str | int, ...]


def parts_of(content: str | Sequence[AnyPart], where: Where, skipped: list[Where]) -> list[Part]:
    """The parts of a message. Files that are elsewhere are no use here: `skipped` gets their places. RequestInvalid for what
    is no base64.
    """
    if isinstance(content, str):
        return [TextPart(text=content)]
    parts: list[Part] = []
    for place, part in enumerate(content):
        if isinstance(part, WireText):
            parts.append(TextPart(text=part.text))
        elif part.source.type == "data" or part.source.value[:5].lower() == "data:":
            parts.append(_blob(part, (*where, place)))
        else:
            skipped.append((*where, place))
    return parts


def result_of(message: ToolMessage) -> ToolResultPart:
    """What a tool message says that a call gave: its text."""
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, WireText))
    given = value_of(text) if text or not message.error else message.error
    return ToolResultPart(call_id=message.tool_call_id, result=given, failed=bool(message.error))


def as_text(value: JsonValue) -> str:
    """What a call gave, as a tool message has it; empty when the reader is not shown it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def _blob(part: ImagePart | AudioPart | VideoPart | DocumentPart, where: Where) -> BlobPart:
    source = part.source
    url = f"data:{source.mime_type};base64,{source.value}" if source.type == "data" else source.value
    blob = blob_of(url, _name(part.metadata))
    if blob is None:
        problem = "This is no file in base64, or its type is none."
        raise RequestInvalid(problem, fix="Send base64 and a MIME type.", where=("body", *where, "source", "value"))
    return blob


def _name(metadata: Any) -> str | None:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None
