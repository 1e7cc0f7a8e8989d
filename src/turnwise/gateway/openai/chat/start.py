"""Splits the messages of a request into past turns, the new message and instructions. Pure functions."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, DataPart, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.gateway.openai.chat.schema import ChatMessage, ContentPart, ToolCall
from turnwise.gateway.openai.errors import Where, invalid_parameter, unsupported_tool_error
from turnwise.gateway.shared.content import audio_of, blob_of, call_of, file_of, result_value, why_no_file
from turnwise.gateway.shared.exchanges import Exchanges, PastTurn, joined_instructions


class ChatHistory(NamedTuple):
    """The conversation in a request."""

    past: tuple[PastTurn, ...]
    """The past turns, oldest first."""
    message: Content
    """The new message."""
    instructions: DataPart | None
    """The texts of system and developer messages."""


def read_history(messages: Sequence[ChatMessage]) -> ChatHistory:
    """Returns the conversation in the messages. Everything after the last assistant message is the new message.

    User messages without an assistant message between them are merged.

    Raises:
        RequestInvalid: No message follows the last assistant message, or a part is not supported.
    """
    exchanges, instructions = Exchanges(), list[str]()
    for place, message in enumerate(messages):
        _read(message, ("messages", place), exchanges, instructions)
    if exchanges.answered:
        where: Where = ("messages", len(messages) - 1)
        raise invalid_parameter(
            where, "Nothing follows the assistant's last message.", fix="Send a user's or a tool's message last."
        )
    return ChatHistory(
        tuple(exchanges.past), Content(role="user", parts=tuple(exchanges.sent)), joined_instructions(instructions)
    )


def _read(message: ChatMessage, where: Where, exchanges: Exchanges, instructions: list[str]) -> None:
    """Adds one message to the past exchanges or, if it is a system message, to the instructions."""
    content = (*where, "content")
    if message.role in ("system", "developer"):
        instructions.append(_text(message.content, content))
    elif message.role == "assistant":
        calls = [_call(call, (*where, "tool_calls", place)) for place, call in enumerate(message.tool_calls or ())]
        exchanges.answer(_text(message.content, content), message.refusal or "", calls=calls)
    elif message.role == "tool":
        exchanges.send([_result(message, where)])
    else:
        exchanges.send(_part(part, (*content, place)) for place, part in enumerate(message.content))


def _text(parts: Sequence[ContentPart], where: Where) -> str:
    """Returns the parts as text; messages of roles other than user may contain only text."""
    texts = []
    for place, part in enumerate(parts):
        text = _part_text(part)
        if text is None:
            raise invalid_parameter(
                (*where, place, "type"), "A message of this role may contain only text.", fix="Send a text."
            )
        texts.append(text)
    return "\n".join(texts)


def _part_text(part: ContentPart) -> str | None:
    if part.type == "text":
        return part.text
    return part.refusal if part.type == "refusal" else None


def _part(part: ContentPart, where: Where) -> Part:
    """Converts one content part. Raises for an unknown type, an invalid file, or one that would have to be fetched."""
    text = _part_text(part)
    place: Where
    if text is not None:
        return TextPart(text=text)
    if part.type == "image_url" and part.image_url is not None:
        url, place = part.image_url.url, ("image_url", "url")
        blob = blob_of(url)
        if blob is None:
            problem, fix = why_no_file(url, "image")
            raise invalid_parameter((*where, *place), problem, fix=fix)
    elif part.type == "file" and part.file is not None:
        data, name, place = part.file.file_data, part.file.filename, ("file", "file_data")
        if data is None:
            raise invalid_parameter((*where, "file"), "Stored and remote files are not supported.", fix="Send 'file_data'.")
        blob = file_of(data, name)
    elif part.type == "input_audio" and part.input_audio is not None:
        place = ("input_audio",)
        blob = audio_of(part.input_audio.data, part.input_audio.format)
    else:
        known = "text, image_url, file or input_audio"
        raise invalid_parameter((*where, "type"), "This content part is not supported.", fix=f"Send {known}, with its content.")
    if blob is None:
        problem = "This is not a file in base64. URLs are not fetched."
        raise invalid_parameter((*where, *place), problem, fix="Send data:<type>;base64,…; audio as base64 of mp3 or wav.")
    return blob


def _result(message: ChatMessage, where: Where) -> ToolResultPart:
    if not message.tool_call_id:
        raise invalid_parameter(
            (*where, "tool_call_id"), "The tool message has no tool_call_id.", fix="Send the id of the call."
        )
    return ToolResultPart(call_id=message.tool_call_id, result=result_value(_text(message.content, (*where, "content"))))


def _call(call: ToolCall, where: Where) -> ToolCallPart:
    if call.type == "function" and call.function is None:
        raise invalid_parameter((*where, "function"), "The call has no function.", fix="Send the call as received.")
    if call.function is None or call.type != "function":
        raise unsupported_tool_error((*where, "type"), call.type)
    return call_of(call.id, call.function.name, call.function.arguments)
