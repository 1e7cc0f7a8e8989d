"""How many tokens a part takes: an estimate that errs on the high side, without any provider's tokenizer."""

import json
from collections.abc import Iterable

from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

PART_TOKENS = 4
"""What a part takes besides its text, and its share of what stands around a message."""
CALL_TOKENS = 30
"""What the ids and the frame of a tool call, or of a result, take."""
FILE_TOKENS = 2_000
"""A file that is no text: somewhat more than an image takes where images take most."""


def tokens_of(text: str) -> int:
    """A token for three characters; those that UTF-8 writes in several bytes count two thirds more for each further byte.

    English takes about one for four, code and JSON one for three; Cyrillic is counted as 1 a character, Chinese and Japanese
    as 1.7, emoji as 2.3, which is more than tokenizers of today make of them.
    """
    characters = len(text)
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - characters
    return (characters + 2 * further + 2) // 3


def tokens_of_part(part: Part) -> int:
    """The estimate for one part of a message."""
    if isinstance(part, TextPart | ThinkingPart):
        return PART_TOKENS + tokens_of(part.text)
    if isinstance(part, ToolResultPart):
        return PART_TOKENS + CALL_TOKENS + tokens_of(part.tool) + tokens_of(as_text(part.result))
    if isinstance(part, ToolCallPart):
        written = as_text(part.arguments) if part.raw is None else part.raw
        return PART_TOKENS + CALL_TOKENS + tokens_of(part.tool) + tokens_of(written)
    if isinstance(part, BlobPart):
        return PART_TOKENS + FILE_TOKENS
    return PART_TOKENS


def tokens_of_parts(parts: Iterable[Part]) -> int:
    """The estimate for several parts."""
    return sum(map(tokens_of_part, parts))


def as_text(value: JsonValue) -> str:
    """A value as a model reads it: a text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return to_json(value).decode()
    except ValueError:  # a text in it that UTF-8 cannot write
        return json.dumps(value)
