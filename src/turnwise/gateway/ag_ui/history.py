"""Splits a request's messages into past conversation and new input. Pure."""

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
    TextPart as WireText,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange
from turnwise.gateway.shared.caller_tools import call_of, result_value
from turnwise.gateway.shared.data_urls import blob_of
from turnwise.gateway.shared.exchanges import Exchanges, PastTurn

AnyPart = WireText | ImagePart | AudioPart | VideoPart | DocumentPart
Where = tuple[str | int, ...]
RESULT_ID_PREFIX = "result:"
"""Prefix of the ids of our tool result messages. Those are ignored when a client sends them back."""


def parts_of(content: str | Sequence[AnyPart], where: Where, skipped: list[Where]) -> list[Part]:
    """Returns a message's parts. Files given by URL are not fetched: their places are added to `skipped`.

    Raises:
        RequestInvalid: A file is not base64.
    """
    if isinstance(content, str):
        return [TextPart(text=content)]
    parts: list[Part] = []
    for index, part in enumerate(content):
        if isinstance(part, WireText):
            parts.append(TextPart(text=part.text))
        elif part.source.type == "data" or part.source.value[:5].lower() == "data:":
            parts.append(_blob(part, (*where, index)))
        else:
            skipped.append((*where, index))
    return parts


def result_of(message: ToolMessage) -> ToolResultPart:
    """Returns the tool result in a tool message."""
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, WireText))
    result = result_value(text) if text or not message.error else message.error
    return ToolResultPart(call_id=message.tool_call_id, result=result, failed=bool(message.error))


def result_text(value: JsonValue) -> str:
    """Returns a tool result as text; empty if it is hidden from the reader."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def _blob(part: ImagePart | AudioPart | VideoPart | DocumentPart, where: Where) -> BlobPart:
    """Returns an embedded file. Raises RequestInvalid for invalid base64 or media type."""
    source = part.source
    url = f"data:{source.mime_type};base64,{source.value}" if source.type == "data" else source.value
    blob = blob_of(url, _name(part.metadata))
    if blob is None:
        problem = "The file is not base64, or its media type is invalid."
        raise RequestInvalid(problem, fix="Send base64 and a MIME type.", where=("body", *where, "source", "value"))
    return blob


def _name(metadata: Any) -> str | None:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None


class NewMessages(NamedTuple):
    """The new input of a request."""

    new: tuple[tuple[Part, ...], ...]
    """The parts of each message after the assistant's last one."""
    skipped: tuple[Where, ...]
    """The places of parts that cannot be read."""


def result_id(call_id: str) -> str:
    """Returns the id of the message with a call's result."""
    return RESULT_ID_PREFIX + call_id


def new_messages(messages: Sequence[Message]) -> NewMessages:
    """Returns the messages after the assistant's last one. Raises RequestInvalid for files that are not base64."""
    last = next((index for index in range(len(messages), 0, -1) if isinstance(messages[index - 1], AssistantMessage)), 0)
    new: list[tuple[Part, ...]] = []
    skipped: list[Where] = []
    for index, message in enumerate(messages[last:], last):
        if isinstance(message, UserMessage):
            new.append(tuple(parts_of(message.content, ("messages", index, "content"), skipped)))
        elif isinstance(message, ToolMessage) and message.id != result_id(message.tool_call_id):
            new.append((result_of(message),))
    return NewMessages(tuple(parts for parts in new if any(map(_has_content, parts))), tuple(skipped))


def past_turns(messages: Sequence[Message]) -> tuple[PastTurn, ...]:
    """Returns the exchanges up to the assistant's last message, without unreadable files."""
    exchanges = Exchanges()
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = [call_of(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            exchanges.answer(message.content or "", calls=calls)
        elif isinstance(message, ToolMessage):
            exchanges.send([result_of(message)])
        elif isinstance(message, UserMessage):
            exchanges.send(_readable(message))
    exchanges.close()
    return tuple(exchanges.past)


def instructions_in(messages: Sequence[Message], context: Sequence[Context]) -> list[str]:
    """Returns the application's instructions and context, as instructions to the agent."""
    instructions = [message.content for message in messages if isinstance(message, SystemMessage | DeveloperMessage)]
    return [*instructions, *(f"{item.description}: {item.value}" if item.description else item.value for item in context)]


def without_repeated(new: Sequence[tuple[Part, ...]], recent: Sequence[Exchange], *, rest: bool) -> Sequence[tuple[Part, ...]]:
    """Removes leading messages that the session's log ends with. Clients repeat messages that got no answer.

    Args:
        rest: Whether the request has other input, so that every message may be a repetition. Otherwise the last one always
            counts as new.
    """
    earlier = [exchange.message for exchange in recent]
    for count in range(min(len(new) if rest else len(new) - 1, len(earlier)), 0, -1):
        if [_text(parts)[:RECENT_CHARACTERS] for parts in new[:count]] == earlier[len(earlier) - count :]:
            return new[count:]
    return new


def without_late_results(
    new: Sequence[tuple[Part, ...]], calls: Container[str]
) -> tuple[Sequence[tuple[Part, ...]], Sequence[str]]:
    """Removes messages with tool results for calls that are not open.

    Returns:
        The other messages, and the call ids of the removed results.
    """
    late = [part.call_id for parts in new for part in parts if isinstance(part, ToolResultPart) and part.call_id not in calls]
    unwanted = set(late)
    return [parts for parts in new if not (isinstance(parts[0], ToolResultPart) and parts[0].call_id in unwanted)], late


def merged_content(new: Sequence[tuple[Part, ...]]) -> Content:
    """Merges several messages into one."""
    return Content(role="user", parts=tuple(part for parts in new for part in parts))


def _readable(message: UserMessage) -> list[Part]:
    """Returns the parts of a past message, without those that cannot be read."""
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
