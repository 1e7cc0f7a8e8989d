"""What a request says, as ours. Pure. RequestInvalid names the place."""

from base64 import b64decode
from binascii import Error
from collections.abc import Sequence

from pydantic import JsonValue
from pydantic_core import from_json

from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart
from turnwise.facts.content import Part as OurPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import USER
from turnwise.gateway.adk.body import PastEvent, Said
from turnwise.gateway.adk.parts import CONFIRMATION
from turnwise.gateway.adk.shape import Blob, FunctionResponse, Part
from turnwise.gateway.speech.data_urls import DEFAULT_TYPE
from turnwise.runner import PastExchange
from turnwise.tools.reserved import CONFIRM

Where = tuple[str | int, ...]
MESSAGE: Where = ("body", "newMessage")

_STANDARD = bytes.maketrans(b"-_", b"+/")


def message_of(said: Said) -> Content:
    """The message of a run."""
    parts = said.parts or ()
    return Content(role="user", parts=tuple(_part(part, (*MESSAGE, "parts", place)) for place, part in enumerate(parts)))


def past_of(events: Sequence[PastEvent]) -> list[PastExchange]:
    """A conversation that was had elsewhere, as far as it is said in texts and files: what calls gave can be made up."""
    past: list[PastExchange] = []
    for place, event in enumerate(events):
        where: Where = ("body", "events", place)
        if event.long_running_tool_ids or any(event.actions.values() if event.actions else ()):
            raise RequestInvalid(
                "An event that is brought in cannot act, nor wait.", fix="Send its content alone.", where=(*where, "actions")
            )
        parts = tuple(_heard(part, (*where, "content", "parts", at)) for at, part in enumerate(_parts_of(event)))
        if not parts:
            continue
        if event.author == USER:
            past.append(PastExchange(Content(role="user", parts=parts)))
        else:
            before = past.pop() if past else PastExchange(None)
            past.append(before._replace(said=(*before.said, Content(parts=parts))))
    return past


def bytes_of(blob: Blob, where: Where) -> bytes:
    """What it holds. Base64 comes in both alphabets, and without its padding."""
    try:
        data = blob.data.encode("ascii").translate(_STANDARD)
        return b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except (Error, ValueError):
        raise RequestInvalid("This is no base64.", fix="Send the bytes in base64.", where=(*where, "data")) from None


def _parts_of(event: PastEvent) -> Sequence[Part]:
    return () if event.partial or event.content is None else event.content.parts or ()


def _heard(part: Part, where: Where) -> OurPart:
    if part.function_call or part.function_response:
        problem = "Calls of tools cannot be brought in."
        raise RequestInvalid(problem, fix="Send what was said of them as text.", where=where)
    return _part(part, where)


def _part(part: Part, where: Where) -> OurPart:
    if part.function_response is not None:
        return _result(part.function_response, (*where, "functionResponse"))
    if part.text is not None:
        return TextPart(text=part.text)
    if part.inline_data is not None:
        blob = part.inline_data
        data = bytes_of(blob, (*where, "inlineData"))
        return BlobPart(data=data, mime_type=blob.mime_type or DEFAULT_TYPE, name=blob.display_name)
    problem = "This is no part that can be read here."
    raise RequestInvalid(problem, fix="Send a text, inlineData or a functionResponse. Nothing is fetched.", where=where)


def _result(given: FunctionResponse, where: Where) -> ToolResultPart:
    if not given.id:
        raise RequestInvalid("It is not said whose result this is.", fix="Send the id of the call.", where=(*where, "id"))
    response: JsonValue = given.response
    if given.name == CONFIRMATION:
        return ToolResultPart(call_id=given.id, tool=CONFIRM, result={"approved": _is_confirmed(given.response or {})})
    return ToolResultPart(call_id=given.id, tool=given.name or "", result=response)


def _is_confirmed(response: dict[str, JsonValue]) -> bool:
    """Whether the person agreed. ADK's clients may send what they say as JSON in a text."""
    told: JsonValue = response
    wrapped = response.get("response")
    if len(response) == 1 and isinstance(wrapped, str):
        try:
            told = from_json(wrapped)
        except (ValueError, TypeError):
            return False
    return isinstance(told, dict) and told.get("confirmed") is True
