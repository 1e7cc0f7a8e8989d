"""Memory: facts, preferences and things that a user mentioned, beyond the log of one session."""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, AwareDatetime, Field, ValidationError

from turnwise.facts.errors import MemoryInvalid
from turnwise.facts.fact import Fact, optional

MemoryKind = Literal["fact", "entity", "message", "summary"]
Span = Literal["working", "short", "long"]
Speaker = Literal["user", "agent", "tool", "document", "operator"]
"""The speaker: who said the text of an entry. Text of tools and documents is used only on request."""

KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
TEXT_CHARACTERS = 4_000
ID_CHARACTERS = 128
SUPERSEDED = 32
ENTRIES = 100_000
"""The most entries of one user that a store keeps."""
FORGOTTEN = "[forgotten]"
"""Replaces the text of a forgotten entry where a step recorded it."""
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


_Storable = AfterValidator(check_text)


class Entity(Fact):
    """A thing or person that was mentioned, such as an order with its number."""

    type: Annotated[str, Field(min_length=1, max_length=64), _Storable]
    """Its type: `code`, `date`, `email`, `money`, or a name that an agent's pattern gives."""
    value: Annotated[str, Field(min_length=1, max_length=500), _Storable]
    """As it was written."""
    normal: Annotated[str, Field(min_length=1, max_length=500), _Storable]
    """The form in which equal ones are equal: lower case, without spaces around it."""


class MemorySource(Fact):
    """The event that an entry came with."""

    session: str
    """The id of the session."""
    sequence: int
    """The number of the event in the session's log."""


class MemoryEntry(Fact):
    """One entry of a user's memory. Its text is data: neither an instruction nor a permission (behaviour G5)."""

    id: Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS), _Storable]
    """Unique for the user. Remembering an id again changes nothing."""
    kind: MemoryKind = "fact"
    text: Annotated[str, Field(max_length=TEXT_CHARACTERS), _Storable] = ""
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


def new_entry(**values: Any) -> MemoryEntry:
    """Returns an entry to remember. Raises MemoryInvalid: the text is empty or too long, the kind is unknown, …"""
    try:
        entry = MemoryEntry(**values)
    except (ValidationError, TypeError) as error:
        raise MemoryInvalid(f"This cannot be remembered: {_first_problem(error)}", fix="Change it.") from None
    if not entry.text.strip():
        raise MemoryInvalid("This cannot be remembered: its text is empty.", fix="Give it a text.")
    return entry


def _first_problem(error: Exception) -> str:
    """Returns what is wrong, without the value."""
    if not isinstance(error, ValidationError):
        return f"{error}."
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the entry'}: {problem['msg']}."


class MemoryConfig(Fact):
    """The memory that an app keeps by itself. Agents use `context.memory` without it."""

    entities: Literal["off", "working", "short", "long"] = "working"
    """How long the codes, dates, addresses, amounts and declared things of users' messages are kept."""
    working_seconds: float = Field(default=300.0, gt=0, le=1e9, allow_inf_nan=False)
    short_seconds: float = Field(default=3_600.0, gt=0, le=1e9, allow_inf_nan=False)
    model: Any = None
    """The model that finds facts in conversations, as for an LLM agent; None finds none."""
    ingest: Literal["never", "on_end", "on_request"] = "on_end"
    """When the model reads conversations: after each answer, or only when a session is added."""

    routing: bool = True
    """Whether the agent that noted a thing, or served it last, counts when a later message names the thing."""

    def seconds(self, span: Span) -> float | None:
        """Returns how long entries of a span last; None means for good."""
        return {"working": self.working_seconds, "short": self.short_seconds}.get(span)


class ShownMemory(Fact):
    """An entry as a model got it, beside the conversation."""

    id: str
    """The id of the entry."""
    text: str
    """FORGOTTEN once the entry was forgotten."""
    said_by: Speaker
    at: str
    """The day on which it was noted, as an ISO date."""


class Recalled(Fact):
    """An entry that a search found."""

    entry: MemoryEntry
    score: float
    """Comparable only within one search: higher fits better."""
    reason: str = optional("")
    """Why it was found: the parts of the score."""
