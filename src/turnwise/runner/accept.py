"""What may come in: the checks on a message before anything is stored (behaviour A25)."""

from turnwise.facts.content import BlobPart, Content, Part, TextPart, text_content
from turnwise.facts.errors import EmptyMessage, ForbiddenPart, MessageError, MessageTooLarge
from turnwise.facts.limits import Limits


def incoming(message: str | Content, limits: Limits) -> Content:
    """The message as content in the user's role, a copy; the caller's object is untouched.

    Raises EmptyMessage, ForbiddenPart (a tool call), MessageTooLarge (text and data, one blob, or too many parts), and
    MessageError for what is no message, or holds what cannot be written as UTF-8.
    """
    content = text_content(message) if isinstance(message, str) else message
    if not isinstance(content, Content):
        raise MessageError(f"A {type(message).__name__} is no message.", fix="Send a str or Content.")
    if not any(_says_something(part) for part in content.parts):
        raise EmptyMessage("The message is empty.", fix="Send text, a file, data or a tool result.")
    if content.tool_calls:
        raise ForbiddenPart(
            f"The message holds a call of the tool {content.tool_calls[0].tool!r}; only agents call tools.",
            fix="Send a tool result, or text.",
        )
    if len(content.parts) > limits.parts:
        raise MessageTooLarge(
            f"The message has {len(content.parts)} parts, {limits.parts} are allowed.", fix="Raise limits.parts."
        )
    blobs = [part for part in content.parts if isinstance(part, BlobPart)]
    for index, blob in enumerate(blobs):
        if len(blob.data) > limits.blob_bytes:
            raise MessageTooLarge(
                f"Blob {index} of the message has {len(blob.data):,} bytes, {limits.blob_bytes:,} are allowed.",
                fix="Raise limits.blob_bytes.",
            )
    try:
        size = sum(_size(part) for part in content.parts)
    except ValueError as error:
        raise MessageError(f"The message cannot be stored: {error}.", fix="Send text that UTF-8 can write.") from None
    if size > limits.message_bytes:
        raise MessageTooLarge(
            f"The message has {size:,} bytes of text and data, {limits.message_bytes:,} are allowed.",
            fix="Raise limits.message_bytes, or send it as a file.",
        )
    return content.model_copy(update={"role": "user"})


def _says_something(part: object) -> bool:
    return bool(part.text.strip()) if isinstance(part, TextPart) else True


def _size(part: Part) -> int:
    if isinstance(part, BlobPart):
        return 0
    return len(part.text.encode()) if isinstance(part, TextPart) else len(part.model_dump_json())
