"""What a message held, as items of a request's input."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.responses.names import Name
from turnwise.gateway.speech.data_urls import data_url
from turnwise.transcript.sizes import as_text

InputItem = dict[str, Any]


class Items(BaseModel):
    """A page of items."""

    object: Literal["list"] = "list"
    data: list[InputItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Window(NamedTuple):
    """Which items: behind that one, at most so many, the last first or the first first."""

    after: str | None = None
    limit: int = 20
    order: Literal["asc", "desc"] = "desc"


def items_of(name: Name, content: Content) -> list[InputItem]:
    """The items, in their order: results, then what was said."""
    items: list[InputItem] = []
    said: list[TextPart | BlobPart] = []
    for part in content.parts:
        if isinstance(part, ToolResultPart):
            items.append(_result(name, len(items), part))
        elif isinstance(part, TextPart | BlobPart):
            said.append(part)
    if said:
        told = [_part(part) for part in said]
        message = {"type": "message", "status": "completed", "role": "user", "content": told}
        items.append({"id": name.given(len(items)), **message})
    return items


def page_of(items: Sequence[InputItem], window: Window) -> Items:
    """That page of them. RequestInvalid when it is to begin behind what is not there."""
    ordered = list(items) if window.order == "asc" else list(items)[::-1]
    if window.after is not None:
        place = next((place for place, item in enumerate(ordered) if item["id"] == window.after), None)
        if place is None:
            raise RequestInvalid("There is no such item.", fix="Send the last_id of a page.", where=("query", "after"))
        ordered = ordered[place + 1 :]
    shown = ordered[: window.limit]
    ids = [item["id"] for item in shown] or [None]
    return Items(data=shown, first_id=ids[0], last_id=ids[-1], has_more=len(ordered) > len(shown))


def _result(name: Name, place: int, part: ToolResultPart) -> InputItem:
    return {
        "id": name.given(place),
        "type": "function_call_output",
        "status": "completed",
        "call_id": name.call(part.call_id),
        "output": as_text(part.result),
    }


def _part(part: TextPart | BlobPart) -> InputItem:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if part.mime_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(part)}
    return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}
