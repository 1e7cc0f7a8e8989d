"""The bodies of the native API for the memory of users."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from turnwise.facts.memory import ID_CHARACTERS, SUPERSEDED, TEXT_CHARACTERS, MemoryKind, Span, Speaker
from turnwise.wire.messages import PLAIN, Body, OptionalSessionId

MOST_QUERY = 16_000
MOST_IDS = 200

EntryId = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS, pattern=PLAIN)]


class EntityInput(Body):
    """A thing or person. Equal normal forms are the same one."""

    type: str = Field(min_length=1, max_length=64, pattern=PLAIN, examples=["order"])
    value: str = Field(min_length=1, max_length=500, pattern=PLAIN, examples=["Order 10412"])
    normal: str = Field(min_length=1, max_length=500, pattern=PLAIN, examples=["10412"])


class AddMemory(Body):
    """An entry to remember. `session_id` limits it to one session. The same `id` again changes nothing."""

    text: str = Field(
        min_length=1, max_length=TEXT_CHARACTERS, pattern=PLAIN, examples=["Prefers to be called in the morning."]
    )
    id: EntryId | None = None
    kind: MemoryKind = "fact"
    span: Span = "long"
    session_id: OptionalSessionId = None
    entity: EntityInput | None = None
    supersedes: list[EntryId] = Field(default=[], max_length=SUPERSEDED)


class SearchMemories(Body):
    """A search. Null filters match everything."""

    query: str = Field(min_length=1, max_length=MOST_QUERY, pattern=PLAIN, examples=["When can I call?"])
    limit: int = Field(default=10, ge=1, le=100)
    kinds: list[MemoryKind] | None = Field(default=None, max_length=4)
    spans: list[Span] | None = Field(default=None, max_length=3)
    said_by: list[Speaker] | None = Field(default=None, max_length=5)
    session_id: OptionalSessionId = None


class EntityShown(BaseModel):
    """A thing or person."""

    type: str
    value: str
    normal: str


class MemoryShown(BaseModel):
    """An entry of a user's memory. `session_id` is null for entries of all sessions; `agent` is the one that noted it."""

    id: str
    kind: MemoryKind
    text: str
    span: Span
    session_id: str | None = None
    said_by: Speaker
    agent: str | None = None
    entity: EntityShown | None = None
    supersedes: list[str] = []
    created_at: datetime
    expires_at: datetime | None = None
    source_session_id: str | None = None
    source_sequence: int | None = None


class MemoryPage(BaseModel):
    """A page of entries, newest first. `next` continues the list; null at the end."""

    memories: list[MemoryShown]
    next: str | None


class MemoryFound(BaseModel):
    """An entry that a search found. Scores of one search are comparable: higher fits better."""

    score: float
    reason: str
    memory: MemoryShown


class MemoriesFound(BaseModel):
    """The entries that fit best, best first."""

    found: list[MemoryFound]


class MemoriesForgotten(BaseModel):
    """How many entries were deleted."""

    forgotten: int
