"""Reads requests: a JSON body as a message of the protocol, and a message as Turnwise content and context. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from a2a.types import ListTasksRequest, Message, Part, Role, SendMessageRequest
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidRequestError, JSONParseError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as ProtobufMessage
from pydantic import JsonValue
from pydantic_core import from_json

from turnwise.facts import content as ours
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.messages import MessageContext
from turnwise.gateway.a2a.parts import message_json
from turnwise.gateway.shared.content import DEFAULT_TYPE, blob_of

AGENT, USER, CALL = "agent", "user", "callId"
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
        self.agent, self.user, self.call = (_text(metadata, name) for name in (AGENT, USER, CALL))
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
