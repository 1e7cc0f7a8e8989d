"""The reader of a transcript, and its budget."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Branch
from turnwise.facts.fact import values_of


@dataclass(frozen=True, slots=True)
class View:
    """The agent run that reads the log: `agent` on `branch` of the invocation."""

    agent: str
    branch: Branch
    invocation_id: str
    scopes: frozenset[str] | None = None
    """The labels that the reader works on; None means all. An event of another agent is hidden if it has labels, none of
    which is among these or below them (behaviour D7).
    """
    giver: str | None = None
    """The author of the run's opening when the log does not hold it; None for the user or the caller."""
    calls_as_text: bool = False
    """True to show the reader's own calls and results as text, for a model without tools."""

    def __post_init__(self) -> None:
        # Callers may give the branch as text, as it stands in an event's JSON.
        if not isinstance(self.branch, Branch):
            object.__setattr__(self, "branch", Branch(self.branch))


class Budget(NamedTuple):
    """The maximum size of a transcript."""

    tokens: int
    """Tokens, as estimated by `transcript.sizes`."""
    events: int
    """The number of events."""


PART_TOKENS = 4
"""The tokens of a part besides its text, with its share of the message's overhead."""
CALL_TOKENS = 30
"""The tokens of the ids and the structure of a tool call or a result."""
FILE_TOKENS = 2_000
"""The tokens of a file that is no text: slightly more than the most expensive image."""


def tokens_of(text: str) -> int:
    """Returns one token per three characters, plus two thirds for each further UTF-8 byte of a character.

    English needs about one token per four characters, code and JSON one per three. Cyrillic counts as 1 per character,
    Chinese and Japanese as 1.7, emoji as 2.3. That is more than current tokenizers need.
    """
    characters = len(text)
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - characters
    return (characters + 2 * further + 2) // 3


def tokens_of_part(part: Part) -> int:
    """Returns the estimate for one part."""
    if type(part) is TextPart:  # the usual case, and there may be thousands
        text = values_of(part)["text"]
        return PART_TOKENS + ((len(text) + 2) // 3 if text.isascii() else tokens_of(text))
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
    """Returns the estimate for several parts."""
    return sum(map(tokens_of_part, parts))


def as_text(value: JsonValue) -> str:
    """Returns a value as a model reads it: text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return to_json(value).decode()
    except ValueError:  # a text that UTF-8 cannot encode
        return json.dumps(value)
