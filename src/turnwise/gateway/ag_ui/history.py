"""The messages of a request: how the conversation went, and what of it is new. Pure."""

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    Context,
    DeveloperMessage,
    DocumentPart,
    ImagePart,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from ag_ui.core import TextPart as WireText
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange
from turnwise.gateway.shared.data_urls import blob_of
from turnwise.gateway.shared.exchanges import Exchanges, PastTurn
from turnwise.gateway.shared.tool_calls import call_of, result_value

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
    given = result_value(text) if text or not message.error else message.error
    return ToolResultPart(call_id=message.tool_call_id, result=given, failed=bool(message.error))


def result_text(value: JsonValue) -> str:
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


RESULT_ID_PREFIX = "result:"
"""How the ids begin of messages by which we tell what a call gave: they are not for us when they come back."""


class NewMessages(NamedTuple):
    """What a request says behind the assistant's last message, message by message; skipped: the places of what cannot be read
    here.
    """

    new: tuple[tuple[Part, ...], ...]
    skipped: tuple[Where, ...]


def result_id(call_id: str) -> str:
    """The id of the message that tells what that call gave."""
    return RESULT_ID_PREFIX + call_id


def new_messages(messages: Sequence[Message]) -> NewMessages:
    """What is new. RequestInvalid for files that are no base64."""
    last = next((place for place in range(len(messages), 0, -1) if isinstance(messages[place - 1], AssistantMessage)), 0)
    new: list[tuple[Part, ...]] = []
    skipped: list[Where] = []
    for place, message in enumerate(messages[last:], last):
        if isinstance(message, UserMessage):
            new.append(tuple(parts_of(message.content, ("messages", place, "content"), skipped)))
        elif isinstance(message, ToolMessage) and message.id != result_id(message.tool_call_id):
            new.append((result_of(message),))
    return NewMessages(tuple(parts for parts in new if any(map(_has_content, parts))), tuple(skipped))


def past_turns(messages: Sequence[Message]) -> tuple[PastTurn, ...]:
    """The exchanges up to the assistant's last message. Files that cannot be read are left out."""
    told = Exchanges()
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = [call_of(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            told.answer(message.content or "", calls=calls)
        elif isinstance(message, ToolMessage):
            told.send([result_of(message)])
        elif isinstance(message, UserMessage):
            told.send(_readable(message))
    told.close()
    return tuple(told.past)


def instructions_in(messages: Sequence[Message], context: Sequence[Context]) -> list[str]:
    """What the application wants of whoever answers, and what it lets him know."""
    wanted = [message.content for message in messages if isinstance(message, SystemMessage | DeveloperMessage)]
    return [*wanted, *(f"{each.description}: {each.value}" if each.description else each.value for each in context)]


def without_repeated(new: Sequence[tuple[Part, ...]], recent: Sequence[Exchange], *, rest: bool) -> Sequence[tuple[Part, ...]]:
    """What is new of these without what the session has heard already, as its latest messages: a front end tells again what
    got no answer. rest: there is something else in the request, so that all of it may have been heard; else the last of them
    counts.
    """
    heard = [exchange.message for exchange in recent]
    for count in range(min(len(new) if rest else len(new) - 1, len(heard)), 0, -1):
        if [_text(parts)[:RECENT_CHARACTERS] for parts in new[:count]] == heard[len(heard) - count :]:
            return new[count:]
    return new


def without_late_results(
    new: Sequence[tuple[Part, ...]], calls: Container[str]
) -> tuple[Sequence[tuple[Part, ...]], Sequence[str]]:
    """What is new without what calls gave that nobody waits for (any more); and those calls."""
    late = [part.call_id for parts in new for part in parts if isinstance(part, ToolResultPart) and part.call_id not in calls]
    unwanted = set(late)
    return [parts for parts in new if not (isinstance(parts[0], ToolResultPart) and parts[0].call_id in unwanted)], late


def merged_content(new: Sequence[tuple[Part, ...]]) -> Content:
    """Several messages as one."""
    return Content(role="user", parts=tuple(part for parts in new for part in parts))


def _readable(message: UserMessage) -> list[Part]:
    if isinstance(message.content, str):
        return [TextPart(text=message.content)]
    parts: list[Part] = []
    for part in message.content:
        try:
            parts += parts_of([part], (), [])
        except RequestInvalid:
            continue
    return parts


def _text(parts: Sequence[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _has_content(part: Part) -> bool:
    return bool(part.text.strip()) if isinstance(part, TextPart) else True
