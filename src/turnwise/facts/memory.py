"""Memory: what was said, and whom and what it was about, beyond the log of one session."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from turnwise.facts.fact import Fact, optional

MemoryKind = Literal["fact", "entity", "message", "summary"]
Span = Literal["working", "short", "long"]
Speaker = Literal["user", "agent", "tool", "document", "operator"]
"""Who said what an entry holds. What tools and documents said is never used without being asked for."""

TEXT_CHARACTERS = 4_000
ID_CHARACTERS = 128
SUPERSEDED = 32
SPAN_SECONDS: dict[str, float | None] = {"working": 300.0, "short": 3_600.0, "long": None}
"""How long the entries of a span last; None means for good."""


def check_text(text: str) -> str:
    """Returns the text if it can be stored. Raises ValueError with the reason."""
    if "\0" in text:
        raise ValueError("The text of a memory holds the character NUL.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("The text of a memory has a character that UTF-8 cannot write.") from None
    return text


StoredText = Annotated[str, AfterValidator(check_text)]


class Entity(Fact):
    """A thing or person that was mentioned, such as an order with its number."""

    type: Annotated[StoredText, Field(min_length=1, max_length=64)]
    """What it is: `code`, `date`, `email`, `money`, or a name that an agent's pattern gives."""
    value: Annotated[StoredText, Field(min_length=1, max_length=500)]
    """As it was written."""
    normal: Annotated[StoredText, Field(min_length=1, max_length=500)]
    """The form in which equal ones are equal: lower case, without spaces around it."""


class MemorySource(Fact):
    """The event that an entry came with."""

    session: str
    """The id of the session."""
    sequence: int
    """The number of the event in the session's log."""


class MemoryEntry(Fact):
    """One entry of a user's memory. What it says is data: neither an instruction nor a permission (behaviour G5)."""

    id: Annotated[StoredText, Field(min_length=1, max_length=ID_CHARACTERS)]
    """Unique for the user. Remembering an id again changes nothing."""
    kind: MemoryKind = "fact"
    text: Annotated[StoredText, Field(max_length=TEXT_CHARACTERS)] = ""
    """Empty in the log: the store holds the text, so that it can be forgotten."""
    session: str | None = optional(None)
    """The session to which the entry belongs; None for all sessions of the user."""
    span: Span = optional("long")
    expires_at: AwareDatetime | None = optional(None)
    """None means the usual time of the span."""
    said_by: Speaker = optional("agent")
    agent: str = optional("")
    """The agent that noted it; empty when no agent did."""
    roles: tuple[str, ...] = optional(())
    """The caller's roles that may read it, as those that may reach the agent; empty means everyone."""
    entity: Entity | None = optional(None)
    """Only for entries of kind `entity`."""
    supersedes: Annotated[tuple[str, ...], Field(max_length=SUPERSEDED)] = optional(())
    """The ids of the entries that this one replaces, as long as it can be seen itself."""
    created_at: datetime
    source: MemorySource | None = optional(None)
    """Set by the store; None for an entry that came with no event."""


class Recalled(Fact):
    """An entry that a search found."""

    entry: MemoryEntry
    score: float
    """Comparable only within one search: higher fits better."""
