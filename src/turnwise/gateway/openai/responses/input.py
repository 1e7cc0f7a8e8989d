"""Reads the input items of a request: separates the new message from items that repeat the conversation, and compacts them.

A compaction represents a conversation as one item, with which a later request begins. The session's log holds the conversation,
so nothing is summarized: the item holds the id of the last recorded response, and the items that are not recorded.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid, RequestTooLarge
from turnwise.facts.ids import SystemIssuer
from turnwise.gateway.openai.errors import Where, invalid_parameter
from turnwise.gateway.openai.responses.response import CallId, ResponseId, parse_call_id, parse_response_id, seconds
from turnwise.gateway.openai.responses.schema import Thread, Tokens
from turnwise.gateway.shared.content import audio_of, blob_of, call_of, data_url, file_of, result_value, why_no_file
from turnwise.gateway.shared.exchanges import MOST_MESSAGES, Exchanges, PastTurn, joined_instructions
from turnwise.transcript.view import as_text

Item = Mapping[str, JsonValue]
COMPACTION = "compaction"
MOST_COMPACTED_BYTES = 4 * 1024 * 1024
"""The maximum size of the packed items as JSON."""
_COMPACTION_VERSION = "1."


class ReadInput(NamedTuple):
    """The parsed input of a request."""

    message: Content
    """The new message."""
    instructions: DataPart | None = None
    """The caller's instructions to the agent."""
    past: tuple[PastTurn, ...] = ()
    """The past turns that the input repeats."""
    after: ResponseId | None = None
    """The response of this gateway whose items come last."""
    call: CallId | None = None
    """The last tool call of this gateway that the input mentions."""

    @property
    def content(self) -> Content:
        """The message with the instructions in front."""
        if self.instructions is None:
            return self.message
        return self.message.with_parts((self.instructions, *self.message.parts))


def read_input(given: Sequence[Item] | None, instructions: str | None) -> ReadInput:
    """Parses the input. Everything after the last output item is the new message.

    Raises:
        RequestInvalid: An item is malformed, or its type is not supported.
    """
    reader = _Reader()
    for place, item in enumerate(given or ()):
        reader.read(item, ("input", place))
    told = reader.told
    told.close()
    message = Content(role="user", parts=tuple(told.sent))
    return ReadInput(
        message, joined_instructions([instructions or "", *reader.instructions]), tuple(told.past), reader.after, reader.call
    )


class _Reader:
    """Reads the input items in order."""

    def __init__(self) -> None:
        self.told = Exchanges()
        self.instructions: list[str] = []
        self.after: ResponseId | None = None
        self.call: CallId | None = None
        self._unpacking = False

    def read(self, item: Item, where: Where) -> None:
        """Reads one item."""
        kind = item.get("type", "message" if "role" in item else "item_reference" if "id" in item else None)
        reader = _KINDS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            shown = repr(kind[:64]) if isinstance(kind, str) else "that"
            known = ", ".join(sorted(_KINDS))
            raise invalid_parameter((*where, "type"), f"Items of the type {shown} are not supported.", fix=f"Known: {known}.")
        reader(self, item, where)

    def message(self, item: Item, where: Where) -> None:
        """Reads a message item: past answer, instructions, or the user's message, by its role."""
        role, content = item.get("role"), (*where, "content")
        if role == "assistant":
            self.told.answer(_text(item.get("content"), content))
            self._ends_with(item)
        elif role in ("system", "developer"):
            self.instructions.append(_text(item.get("content"), content))
        elif role == "user":
            self.told.send(_parts(item.get("content"), content))
        else:
            raise invalid_parameter(
                (*where, "role"), "The role is not user, assistant, system or developer.", fix="Correct it."
            )

    def result(self, item: Item, where: Where) -> None:
        """Reads a tool's output as a tool result. Raises for a missing call id."""
        id_, output = item.get("call_id"), item.get("output")
        if not isinstance(id_, str) or not id_:
            raise invalid_parameter((*where, "call_id"), "The output has no call_id.", fix="Send the call_id of its call.")
        parts = [TextPart(text=output)] if isinstance(output, str) else _parts(output, (*where, "output"))
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        result = ToolResultPart(call_id=self._ours(id_), result=result_value(text))
        self.told.send([result, *(part for part in parts if not isinstance(part, TextPart))])

    def function_call(self, item: Item, where: Where) -> None:
        id_, tool, written = (item.get(field) for field in ("call_id", "name", "arguments"))
        if not (isinstance(id_, str) and isinstance(tool, str) and isinstance(written, str)):
            raise invalid_parameter(where, "A call has a call_id, a name and arguments.", fix="Send the call as received.")
        self.told.answer(calls=[call_of(self._ours(id_), tool, written)])
        self._ends_with(item)

    def compaction(self, item: Item, where: Where) -> None:
        """Reads the items that a compaction item of this gateway holds. Raises for any other one, and for a nested one."""
        held = None if self._unpacking else compacted_input(item)
        if held is None:
            raise invalid_parameter(
                (*where, "encrypted_content"),
                "This item was not compacted by this gateway.",
                fix="Send a compaction item as received.",
            )
        self.after = (parse_response_id(held.after) if held.after else None) or self.after
        self._unpacking = True
        for place, inner in enumerate(held.items):
            self.read(inner, (*where, place))
        self._unpacking = False

    def reference(self, item: Item, _: Where) -> None:
        self.told.answer()
        self._ends_with(item)

    def reasoning(self, _: Item, __: Where) -> None:
        self.told.answer()

    def _ends_with(self, item: Item) -> None:
        id_ = item.get("id")
        self.after = parse_response_id(id_) if isinstance(id_, str) else None

    def _ours(self, call_id: str) -> str:
        """Returns the id that the call has in the session."""
        call = parse_call_id(call_id)
        self.call = call or self.call
        return call.id if call else call_id


_Read = Callable[[_Reader, Item, Where], None]
_KINDS: Mapping[str, _Read] = MappingProxyType(
    {
        "message": _Reader.message,
        "function_call_output": _Reader.result,
        "function_call": _Reader.function_call,
        "reasoning": _Reader.reasoning,
        "item_reference": _Reader.reference,
        COMPACTION: _Reader.compaction,
    }
)


def _text(content: JsonValue, where: Where) -> str:
    parts = _parts(content, where)
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _parts(content: JsonValue, where: Where) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=content)]
    if not isinstance(content, list):
        raise invalid_parameter(where, "The content is neither a text nor a list of parts.", fix="Correct it.")
    return [_part(part, (*where, place)) for place, part in enumerate(content)]


def _part(part: JsonValue, where: Where) -> Part:
    """Converts one content part. Raises for an unsupported type."""
    if not isinstance(part, dict):
        raise invalid_parameter(where, "A content part is not an object.", fix="Correct it.")
    kind = part.get("type")
    text = part.get("refusal" if kind == "refusal" else "text")
    if kind in ("input_text", "output_text", "refusal", "text") and isinstance(text, str):
        return TextPart(text=text)
    if kind == "input_image":
        return _file(part, "image_url", where)
    if kind == "input_file":
        return _file(part, "file_data", where)
    if kind == "input_audio":
        return _audio(part, where)
    raise invalid_parameter(
        (*where, "type"),
        "This content part is not supported.",
        fix="Send input_text, input_image, input_file or input_audio.",
    )


def _file(part: Mapping[str, JsonValue], field: str, where: Where) -> BlobPart:
    """Converts an image or file that is given as data. Raises for stored and remote files, and invalid data."""
    given, name = part.get(field), part.get("filename")
    named = name if isinstance(name, str) and name else None
    if not isinstance(given, str):
        place = next((each for each in ("file_id", "file_url", field) if part.get(each) is not None), field)
        raise invalid_parameter(
            (*where, place), "Stored and remote files are not supported.", fix=f"Send a data URL as '{field}'."
        )
    blob = file_of(given, named) if field == "file_data" else blob_of(given, named)
    if blob is None:
        problem, fix = why_no_file(given, "file" if field == "file_data" else "image")
        raise invalid_parameter((*where, field), problem, fix=fix)
    return blob


def _audio(part: Mapping[str, JsonValue], where: Where) -> BlobPart:
    """Converts audio data. Raises for invalid base64 and unsupported formats."""
    audio = part.get("input_audio")
    given = audio if isinstance(audio, dict) else {}
    data, format_ = given.get("data"), given.get("format")
    blob = audio_of(data, format_) if isinstance(data, str) and isinstance(format_, str) else None
    if blob is None:
        raise invalid_parameter(
            (*where, "input_audio"), "This is not base64 audio of a supported format.", fix="Send mp3 or wav."
        )
    return blob


InputItem = dict[str, Any]


class Items(BaseModel):
    """A page of input items."""

    object: Literal["list"] = "list"
    data: list[InputItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Window(NamedTuple):
    """Selects a page of items."""

    after: str | None = None
    """Only items after this one."""
    limit: int = 20
    order: Literal["asc", "desc"] = "desc"


def items_of(name: ResponseId, content: Content) -> list[InputItem]:
    """Returns the input items of a message: tool results first, then its content."""
    items: list[InputItem] = []
    said: list[TextPart | BlobPart] = []
    for part in content.parts:
        if isinstance(part, ToolResultPart):
            items.append(_result(name, len(items), part))
        elif isinstance(part, TextPart | BlobPart):
            said.append(part)
    if said:
        told = [_item_part(part) for part in said]
        message = {"type": "message", "status": "completed", "role": "user", "content": told}
        items.append({"id": name.given(len(items)), **message})
    return items


def page_of(items: Sequence[InputItem], window: Window) -> Items:
    """Returns a page of the items. Raises RequestInvalid if `after` is not the id of an item."""
    ordered = list(items) if window.order == "asc" else list(items)[::-1]
    if window.after is not None:
        place = next((place for place, item in enumerate(ordered) if item["id"] == window.after), None)
        if place is None:
            raise RequestInvalid("There is no such item.", fix="Send the last_id of a page.", where=("query", "after"))
        ordered = ordered[place + 1 :]
    shown = ordered[: window.limit]
    ids = [item["id"] for item in shown] or [None]
    return Items(data=shown, first_id=ids[0], last_id=ids[-1], has_more=len(ordered) > len(shown))


def _result(name: ResponseId, place: int, part: ToolResultPart) -> InputItem:
    """Returns a tool result as an output item."""
    return {
        "id": name.given(place),
        "type": "function_call_output",
        "status": "completed",
        "call_id": name.call(part.call_id),
        "output": as_text(part.result),
    }


def _item_part(part: TextPart | BlobPart) -> InputItem:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if part.mime_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(part)}
    return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}


class Compact(Thread):
    """The body of `POST /v1/responses/compact`."""

    model: str
    image: dict[str, JsonValue] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, JsonValue] | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None


class CompactionItem(BaseModel):
    """A compacted conversation."""

    id: str
    type: Literal["compaction"] = "compaction"
    encrypted_content: str


class Compaction(BaseModel):
    """A compacted conversation. Send these items in front of new input."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[CompactionItem]
    usage: Tokens = Tokens()


class CompactedInput(BaseModel):
    """The content of a compaction item: the last recorded response, and the items after it."""

    model_config = ConfigDict(extra="forbid")
    after: str | None = None
    items: Annotated[list[dict[str, JsonValue]], Field(max_length=MOST_MESSAGES)] = []


def compact_items(after: str | None, items: list[dict[str, JsonValue]]) -> Compaction:
    """Returns the compaction of the items after a response.

    Raises:
        RequestTooLarge: The items exceed `MOST_COMPACTED_BYTES`.
    """
    issuer = SystemIssuer()
    written = json.dumps({"after": after, "items": items}, separators=(",", ":")).encode()
    if len(written) > MOST_COMPACTED_BYTES:
        raise RequestTooLarge(
            f"The items have {len(written):,} bytes, {MOST_COMPACTED_BYTES:,} can be compacted.",
            fix="Continue from a response instead.",
        )
    packed = base64.urlsafe_b64encode(zlib.compress(written)).decode()
    item = CompactionItem(id=issuer.new_id("cmp"), encrypted_content=_COMPACTION_VERSION + packed)
    return Compaction(id=issuer.new_id("compaction"), created_at=seconds(issuer.now()), output=[item])


def compacted_input(item: Any) -> CompactedInput | None:
    """Returns the content of a compaction item; None if it was not made here."""
    given = item.get("encrypted_content")
    if not isinstance(given, str) or not given.startswith(_COMPACTION_VERSION):
        return None
    unpacking = zlib.decompressobj()
    try:
        written = unpacking.decompress(base64.urlsafe_b64decode(given.removeprefix(_COMPACTION_VERSION)), MOST_COMPACTED_BYTES)
        return CompactedInput.model_validate_json(written)
    except (binascii.Error, zlib.error, ValueError):
        return None


def expand_compactions(items: list[dict[str, JsonValue]]) -> CompactedInput:
    """Returns the input with each compaction item replaced by its content."""
    after: str | None = None
    flat: list[dict[str, JsonValue]] = []
    for item in items:
        held = compacted_input(item) if item.get("type") == COMPACTION else None
        if held is None:
            flat.append(item)
        else:
            after, flat = held.after or after, [*flat, *held.items]
    return CompactedInput(after=after, items=flat)
