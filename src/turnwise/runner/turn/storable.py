"""Refuses what an agent says that could not be read again as it was said."""

import json
from collections.abc import Iterator

from turnwise.facts.content import BlobPart, Content, DataPart, ToolCallPart, ToolResultPart
from turnwise.facts.depth import DEEPEST, holds_deep
from turnwise.facts.errors import AgentFailed
from turnwise.facts.events import Event
from turnwise.facts.fact import Fact


def check_storable(fact: Fact, author: str) -> int:
    """The bytes of its JSON, files aside. AgentFailed when what the author said cannot be written as JSON, or could not be
    read again.
    """
    content = fact.content if isinstance(fact, Event) else fact
    if isinstance(content, Content) and holds_deep(content):
        raise AgentFailed(f"{author!r} said something that is nested more than {DEEPEST} levels deep.")
    for what, value in _values(fact):
        if not _is_finite(value):
            raise AgentFailed(f"{author!r} said {what} with NaN or an infinite number, which JSON cannot write.")
    parts = content.parts if isinstance(content, Content) else ()
    files = sum(len(part.data) for part in parts if isinstance(part, BlobPart))
    try:
        return len(fact.model_dump_json().encode()) - files * 4 // 3
    except ValueError as error:
        raise AgentFailed(f"{author!r} said something that cannot be stored: {error}") from None


def _values(fact: Fact) -> Iterator[tuple[str, object]]:
    """All values of an agent's own choice in an event or a content, and what they are."""
    content = fact.content if isinstance(fact, Event) else fact
    for part in content.parts if isinstance(content, Content) else ():
        if isinstance(part, DataPart):
            yield "data", part.data
        elif isinstance(part, ToolCallPart):
            yield f"a call of {part.tool!r}", part.arguments
        elif isinstance(part, ToolResultPart):
            yield f"a result of {part.tool!r}", part.result
    if isinstance(fact, Event):
        for key, value in fact.actions.state_delta.items():
            yield f"a value for {key!r} in the state", value


def _is_finite(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
