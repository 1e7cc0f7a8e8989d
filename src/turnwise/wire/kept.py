"""The bodies of our own API about what is kept: sessions, events, artifacts, decisions, agents."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.facts import cards
from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.wire.bounds import MOST_CHARACTERS, PLAIN, SEGMENT
from turnwise.wire.messages import Body, GivenSessionId, Kind

AnInvocation = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT)]
StateKey = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)]


class CreateSession(Body):
    """A session that begins with this state. Without an `id` it gets one."""

    id: GivenSessionId = Field(default=None, examples=["s-1"])
    state: dict[StateKey, JsonValue] = Field(default={}, examples=[{"language": "en"}])


class WriteState(Body):
    """`state`: the keys to write; null removes one, and others stay as they are."""

    state: dict[StateKey, JsonValue] = Field(examples=[{"language": "en"}])


class RewindSession(Body):
    """`invocation_id`: the first of what is taken back."""

    invocation_id: AnInvocation


class ForkSession(Body):
    """`before_invocation_id`: the first of what is not copied; null = all is. Without an `id` the copy gets one."""

    id: GivenSessionId = Field(default=None, examples=["s-2"])
    before_invocation_id: AnInvocation | None = None


class LabelDecision(Body):
    """`agent`: who should have been chosen; null takes the label away."""

    agent: str | None = Field(max_length=64, pattern=PLAIN)


class SessionRow(BaseModel):
    """A session in a list. `last_sequence` is the number of its newest event, 0 = there is none."""

    id: str
    user: str
    revision: int
    last_sequence: int
    created_at: datetime
    updated_at: datetime


class SessionPage(BaseModel):
    sessions: list[SessionRow]
    next: str | None = None


class OpenWait(BaseModel):
    """What the session waits for, and by which invocation, which has more about it. `kind` as of `OpenCall`."""

    invocation_id: str
    call_id: str
    kind: Kind
    agent: str
    tool: str = ""


class SessionShown(SessionRow):
    """A session. `busy`: a message is being answered; `queued`: how many wait behind it. `running`: the invocations that go on.

    `active_agent`: who spoke last. `holder`: which process answers; for operators alone.
    """

    busy: bool
    queued: int
    turns: int
    active_agent: str | None = None
    running: list[str] = []
    waits: list[OpenWait] = []
    holder: str | None = None


class SessionState(BaseModel):
    """What the session keeps for its agents, with what its user's sessions share (`user:`). `app:` is for operators alone."""

    session_id: str
    revision: int
    state: dict[str, JsonValue]


class EventPage(BaseModel):
    """`next`: to be passed as `after` for the following page; null = there is none."""

    events: list[Event]
    next: int | None = None


class ArtifactShown(BaseModel):
    """One version of an artifact; `size` in bytes."""

    name: str
    version: int
    mime_type: str
    size: int


class ArtifactList(BaseModel):
    artifacts: list[ArtifactShown]


class DecisionShown(BaseModel):
    """A decision. `text` is the beginning of the message; `label`: who should have been chosen, as somebody said since."""

    user: str
    session_id: str
    sequence: int
    invocation_id: str
    text: str
    selection: Selection
    created_at: datetime
    label: str | None = None


class DecisionPage(BaseModel):
    decisions: list[DecisionShown]
    next: str | None = None


class SkillShown(BaseModel):
    name: str
    description: str = ""


class Matching(BaseModel):
    """By what an agent is chosen, and who may reach it: for operators alone."""

    examples: list[str]
    skills: list[cards.Skill]
    patterns: list[cards.Pattern]
    roles: list[str]
    resume: Literal["auto", "never", "always"]
    routable: bool
    enabled: bool
    time_limit: float | None = None


class AgentShown(BaseModel):
    """An agent. `parent` and `children` are its place in the tree."""

    name: str
    description: str
    kind: cards.Kind
    parent: str | None = None
    children: list[str]
    tags: list[str]
    skills: list[SkillShown]
    matching: Matching | None = None


class AgentPage(BaseModel):
    agents: list[AgentShown]
    next: str | None = None


class Alive(BaseModel):
    status: Literal["alive", "ready"]


class Version(BaseModel):
    version: str = Field(examples=["0.1.0"])
