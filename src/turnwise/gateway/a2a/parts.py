"""Writes Turnwise content as A2A parts, and the protocol's values and messages as JSON. Pure: the caller supplies the files."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from a2a.types import ListTasksResponse, Part
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts import content as ours
from turnwise.facts.events import USER, Event
from turnwise.facts.sizes import is_deep
from turnwise.gateway.redaction import Redactor

TEXT_TYPE = "text/plain"
MOST_INLINE = 2 * 1024 * 1024
"""Maximum bytes of files in one response. Files beyond it appear as a URL, or as a text that names them."""

URL_PREFIXES = ("https://", "http://")
"""Artifact names with these prefixes are external URLs, not stored artifacts."""

FileId = tuple[str, int | None]
"""An artifact's name and version; None = the latest."""


class File(NamedTuple):
    """A stored artifact."""

    url: str
    """Its URL; empty if it has none."""
    mime_type: str
    data: bytes | None = None
    """Its bytes; None = too large to inline."""


class PartWriter:
    """Renders content for one response; the inline limit applies to all of it.

    Args:
        view: Redacts events for the reader.
        files: The stored artifacts that the content may refer to.
        modes: Media types that the reader accepts; empty = any.
        inline: Maximum bytes of files.
    """

    def __init__(
        self,
        view: Redactor,
        files: Mapping[FileId, File] | None = None,
        modes: Iterable[str] = (),
        inline: int = MOST_INLINE,
    ) -> None:
        self._view, self._files = view, files or {}
        self._modes = [mode.partition(";")[0].strip().lower() for mode in modes]
        self._left = inline

    def of(self, event: Event) -> list[Part]:
        """Returns an event's parts, redacted for the reader."""
        content = self._view.event(event).content
        return self.parts(content, results=event.author == USER) if content else []

    def parts(self, content: ours.Content, *, results: bool = False) -> list[Part]:
        """Returns the parts of some content. results: include tool results."""
        rendered = (self._part(part, results=results) for part in content.parts)
        return [part for part in rendered if part is not None]

    def accepts(self, mime_type: str) -> bool:
        """Returns whether the reader accepts this media type."""
        any_of = f"{mime_type.partition('/')[0]}/*"
        return not self._modes or any(mode in (mime_type, any_of, "*", "*/*") for mode in self._modes)

    def _part(self, part: ours.Part, *, results: bool) -> Part | None:
        """Returns the part as A2A shows it; None for parts that readers do not see, such as tool calls."""
        if isinstance(part, ours.TextPart):
            return Part(text=part.text, media_type=TEXT_TYPE)
        if isinstance(part, ours.BlobPart):
            return self._file(part.data, part.mime_type, part.name or "")
        if isinstance(part, ours.ArtifactPart):
            return self._artifact(part)
        if isinstance(part, ours.DataPart) and not part.private:
            return self._data(part)
        if isinstance(part, ours.ToolResultPart) and results:
            return data_part({"callId": part.call_id, "result": part.result, "failed": part.failed})
        return None

    def _data(self, part: ours.DataPart) -> Part:
        rendered = data_part(part.data, part.name or "")
        if rendered.HasField("data") and not self.accepts(JSON_TYPE) and self.accepts(TEXT_TYPE):
            return Part(text=to_json(part.data, inf_nan_mode="null").decode(), media_type=TEXT_TYPE, filename=part.name or "")
        return rendered

    def _artifact(self, part: ours.ArtifactPart) -> Part:
        """Returns the artifact's data if it fits into what is left of the size limit; else its URL, or a text with its name."""
        if part.name.startswith(URL_PREFIXES):
            return Part(url=part.name, media_type=part.mime_type or "", filename=part.title or "")
        file, name = self._files.get((part.name, part.version)), part.title or part.name
        if file is not None and file.data is not None and len(file.data) <= self._left:
            return self._file(file.data, file.mime_type, name)
        if file is not None and file.url:
            return Part(url=file.url, media_type=file.mime_type, filename=name)
        return Part(text=f"[file: {name}]", media_type=TEXT_TYPE)

    def _file(self, data: bytes, mime_type: str, name: str) -> Part:
        if len(data) > self._left:
            return Part(text=f"[file: {name or mime_type}, {len(data):,} bytes]", media_type=TEXT_TYPE)
        self._left -= len(data)
        return Part(raw=data, media_type=mime_type, filename=name)


def referenced_files(events: Iterable[Event]) -> list[FileId]:
    """Returns the stored artifacts that these events refer to, each once, without external URLs."""
    parts = (part for event in events if event.content for part in event.content.parts if isinstance(part, ours.ArtifactPart))
    return list(dict.fromkeys((part.name, part.version) for part in parts if not part.name.startswith(URL_PREFIXES)))


JSON_TYPE = "application/json"
DEEPEST = 30
"""Maximum nesting of a structured value. Readers stop at depth 100, and each level costs them two or three."""
EXACT = 2**53
"""Protobuf numbers are floats: integers from this magnitude on lose precision."""


def message_json(message: Any) -> Any:
    """Returns a protobuf message as JSON, with whole numbers as integers. Raises ValueError for NaN or infinity."""
    try:
        return _with_integers(MessageToDict(message))
    except SerializeToJsonError:
        raise ValueError("The value is not valid JSON.") from None


def task_page_json(page: ListTasksResponse) -> Any:
    """Returns a page of tasks as JSON, with every field of the page present, as the protocol requires."""
    fields = {"nextPageToken": page.next_page_token, "pageSize": page.page_size, "totalSize": page.total_size}
    return {"tasks": [message_json(task) for task in page.tasks], **fields}


def json_object(values: dict[str, Any]) -> Struct:
    """Returns JSON values as a protobuf Struct."""
    struct: Struct = ParseDict(values, Struct())
    return struct


def data_part(value: JsonValue, name: str = "") -> Part:
    """Returns a value as a data part, or as JSON text if protobuf cannot represent it exactly."""
    if not is_deep(value, DEEPEST) and _is_exact(value):
        try:
            return Part(data=ParseDict(value, Value()), media_type=JSON_TYPE, filename=name)
        except (ParseError, ValueError, OverflowError):
            pass
    return Part(text=to_json(value, inf_nan_mode="null").decode(), media_type=JSON_TYPE, filename=name)


def _with_integers(value: Any) -> Any:
    """Returns the value with whole floats as integers: protobuf has no integers in JSON values."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    return value


def _is_exact(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, int) or abs(value) < EXACT
