"""Parses request bodies into the protocol's protobuf messages. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from a2a.types import ListTasksRequest
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidRequestError, JSONParseError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from pydantic_core import from_json

from turnwise.gateway.a2a.messages import invalid_field

A2A_JSON, PLAIN_JSON = "application/a2a+json", "application/json"
AnyMessage = TypeVar("AnyMessage", bound=Message)
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


def check_state(fields: Mapping[str, Any], message: Message) -> None:
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
