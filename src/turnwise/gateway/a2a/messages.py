"""Messages and their parts: JSON as messages of the protocol and back, and parts as Turnwise content and back. Pure.

The caller supplies the files that parts show.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from a2a.types import ListTasksRequest, ListTasksResponse, Message, Part, Role, SendMessageRequest
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidRequestError, JSONParseError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts import content as ours
from turnwise.facts.content import is_deep
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import MessageContext
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import DEFAULT_TYPE, blob_of

AGENT_KEY, USER_KEY, CALL_KEY = "agent", "user", "callId"
"""Metadata keys. `agent` addresses an agent directly. `user` names the user, for credentials that act for users. `callId` names
the open call that the message answers.
"""
REFERENCES = "a2a.reference_task_ids"
"""The message attribute that holds the ids of referenced tasks."""
INPUT_MODES = (
    *("text/plain", "text/*", "application/json", "image/*", "audio/*", "video/*"),
    *("application/pdf", "application/xml", "application/zip", "application/octet-stream"),
)
"""Accepted media types. Any other file can be sent as `application/octet-stream`."""
_FIELDS = ("channel", "user_kind")


class IncomingMessage:
    """The parsed message of a request.

    Raises:
        RequestInvalid: The message is not a valid user message.
        ContentTypeNotSupportedError: A file is given by URL, which is never fetched, or has an unaccepted media type.
    """

    def __init__(self, request: SendMessageRequest) -> None:
        message = request.message
        if message.role != Role.ROLE_USER:
            raise invalid_field("message.role", "Only user messages can be sent.", fix="Send ROLE_USER.")
        metadata = {**_json(request.metadata, "metadata"), **_json(message.metadata, "message.metadata")}
        self.agent, self.user, self.call = (_text(metadata, name) for name in (AGENT_KEY, USER_KEY, CALL_KEY))
        channel, user_kind = (_text(metadata, name) for name in _FIELDS)
        attributes: dict[str, JsonValue] = {**metadata, **_references(message)}
        self.context = MessageContext(attributes=attributes, channel=channel, user_kind=user_kind)
        self.content = ours.Content(role="user", parts=tuple(map(_part, message.parts, range(len(message.parts)))))

    @property
    def data(self) -> dict[str, JsonValue]:
        """All named values of the data parts, merged; later parts win."""
        values: dict[str, JsonValue] = {}
        for part in self.content.parts:
            if isinstance(part, ours.DataPart) and isinstance(part.data, dict):
                values |= part.data
        return values


def invalid_field(where: str, problem: str, *, fix: str = "Correct it.") -> RequestInvalid:
    """Returns a RequestInvalid error that points to a field of the request."""
    return RequestInvalid(problem, fix=fix, where=(where,))


def _references(message: Message) -> dict[str, JsonValue]:
    ids: Sequence[str] = message.reference_task_ids
    return {REFERENCES: list(ids)} if ids else {}


def _text(metadata: dict[str, Any], name: str) -> str | None:
    """Removes a string from the metadata and returns it."""
    value = metadata.pop(name, None)
    if value is None or isinstance(value, str):
        return value
    raise invalid_field(f"metadata.{name}", "The value is not a string.")


def _json(message: Any, where: str) -> Any:
    try:
        return message_json(message)
    except ValueError:
        raise invalid_field(where, "The value has a number that JSON cannot represent.") from None


def _part(part: Part, index: int) -> ours.Part:
    """Converts one part of a message. Raises for an empty part, an invalid media type, and a file to fetch from a URL."""
    where = f"message.parts[{index}]"
    kind = part.WhichOneof("content")
    if kind == "text":
        return ours.TextPart(text=part.text)
    if kind == "data":
        return ours.DataPart(data=_json(part.data, f"{where}.data"), name=part.filename or None)
    if kind == "raw":
        _check_media_type(part.media_type or DEFAULT_TYPE, f"{where}.mediaType")
        return ours.BlobPart(data=part.raw, mime_type=part.media_type or DEFAULT_TYPE, name=part.filename or None)
    if kind != "url":
        raise invalid_field(where, "The part is empty.", fix="Send one of text, raw, url and data.")
    blob = blob_of(part.url, part.filename or None)
    if blob is None:
        raise ContentTypeNotSupportedError(
            "Files are not fetched from URLs. Send them as raw, or as a data: URL.",
            data={"field": f"{where}.url"},
        )
    blob = blob.replace(mime_type=part.media_type) if part.media_type else blob
    _check_media_type(blob.mime_type, f"{where}.mediaType")
    return blob


def _check_media_type(mime_type: str, where: str) -> None:
    kind = mime_type.partition(";")[0].strip().lower()
    if kind not in INPUT_MODES and f"{kind.partition('/')[0]}/*" not in INPUT_MODES:
        problem = f"Files of the type {kind[:100]!r} are not accepted. See the card's defaultInputModes."
        raise ContentTypeNotSupportedError(problem, data={"field": where})


A2A_JSON, PLAIN_JSON = "application/a2a+json", "application/json"
AnyMessage = TypeVar("AnyMessage", bound=ProtobufMessage)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_ANY_STATE = (None, "", 0, "TASK_STATE_UNSPECIFIED")
_PLACE = re.compile(r"at \w+\.([\w.\[\]]+?)\.*$")


def check_type(content_type: str | None) -> None:
    """Raises ContentTypeNotSupportedError unless the Content-Type header declares JSON; a missing header counts as JSON."""
    kind = (content_type or PLAIN_JSON).partition(";")[0].strip().lower()
    if kind not in (A2A_JSON, PLAIN_JSON):
        raise ContentTypeNotSupportedError(f"The Content-Type header does not declare JSON. Send Content-Type: {PLAIN_JSON}.")


def json_of(body: bytes) -> Any:
    """Parses a JSON body. Raises JSONParseError."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        raise JSONParseError("The body is not JSON.") from None


def object_of(body: bytes) -> dict[str, Any]:
    """Parses a JSON object; an empty body is an empty object. Raises JSONParseError, InvalidRequestError."""
    value = json_of(body) if body.strip() else {}
    if not isinstance(value, dict):
        raise InvalidRequestError("The body is not a JSON object.")
    return value


def message_of(fields: Mapping[str, Any], message_type: type[AnyMessage]) -> AnyMessage:
    """Builds a protobuf message from its fields. Unknown fields are ignored. Raises RequestInvalid, InvalidParamsError."""
    for field, raw in _raw_parts(fields):
        if not isinstance(raw, str) or not _BASE64.fullmatch(raw) or len(raw.rstrip("=")) % 4 == 1:
            raise invalid_field(field, "The value is not base64.")
    try:
        message: AnyMessage = ParseDict(dict(fields), message_type(), ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, OverflowError) as error:
        match = _PLACE.search(str(error)) if isinstance(error, ParseError) else None
        raise invalid_field(match[1] if match else "params", "A value has the wrong type, or is nested too deeply.") from None
    check_state(fields, message)
    validate_proto_required_fields(message)
    return message


def check_state(fields: Mapping[str, Any], message: ProtobufMessage) -> None:
    """Raises RequestInvalid for an unknown task state; protobuf would read it as "any state"."""
    if isinstance(message, ListTasksRequest) and fields.get("status") not in _ANY_STATE and not message.status:
        raise invalid_field("status", "Unknown task state.")


def _raw_parts(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the `raw` values of the message's parts, with their field paths."""
    message = fields.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and part.get("raw") is not None:
            yield f"message.parts[{index}].raw", part["raw"]


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
        if rendered.HasField("data") and not self.accepts(PLAIN_JSON) and self.accepts(TEXT_TYPE):
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
            return Part(data=ParseDict(value, Value()), media_type=PLAIN_JSON, filename=name)
        except (ParseError, ValueError, OverflowError):
            pass
    return Part(text=to_json(value, inf_nan_mode="null").decode(), media_type=PLAIN_JSON, filename=name)


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
