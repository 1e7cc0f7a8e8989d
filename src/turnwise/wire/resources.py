"""The bodies of the native API for sessions, events, artifacts, decisions and agents."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.facts import tree
from turnwise.facts.events import Event
from turnwise.facts.fact import optional
from turnwise.facts.selections import Selection
from turnwise.facts.waits import PendingReason, WaitKind
from turnwise.wire.messages import MOST_CHARACTERS, PLAIN, SEGMENT, Body, OptionalSessionId

InvocationId = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT)]
StateKey = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)]


class CreateSession(Body):
    """A new session with this state. Without an `id`, the server issues one."""

    id: OptionalSessionId = Field(default=None, examples=["s-1"])
    state: dict[StateKey, JsonValue] = Field(default={}, examples=[{"language": "en"}])


class WriteState(Body):
    """State keys to write. Null removes a key; other keys stay unchanged."""

    state: dict[StateKey, JsonValue] = Field(examples=[{"language": "en"}])


class RewindSession(Body):
    """Rewinds the session to before the invocation `invocation_id`."""

    invocation_id: InvocationId


class ForkSession(Body):
    """Copies the session up to the invocation `before_invocation_id`, or all of it if null. Without an `id`, the server
    issues one.
    """

    id: OptionalSessionId = Field(default=None, examples=["s-2"])
    before_invocation_id: InvocationId | None = None


class SessionRow(BaseModel):
    """A session in a list. `last_sequence` is the number of its newest event; 0 means that there is none."""

    id: str
    user: str
    revision: int
    last_sequence: int
    created_at: datetime
    updated_at: datetime


class SessionPage(BaseModel):
    sessions: list[SessionRow]
    next: str | None = None


class RecentSessionShown(BaseModel):
    """A session with its newest decision. `title` is the beginning of its first message, `text` that of the last one.

    `agent` was selected last. `state` is that of the newest invocation: `running`, `waiting`, or the reason of its end.
    """

    id: str
    user: str
    title: str
    text: str
    agent: str | None
    state: str | None
    changed_at: datetime


class RecentSessionPage(BaseModel):
    sessions: list[RecentSessionShown]
    next: str | None = None


class OpenWait(BaseModel):
    """An open wait of the session. The invocation `invocation_id` has the details. `kind` is as in `OpenCall`."""

    invocation_id: str
    call_id: str
    kind: WaitKind
    agent: str
    tool: str = ""


class PendingShown(BaseModel):
    """A reason why the session waits.

    - `reply`, `tool_result`: the agent waits, until `until`.
    - `held`: a process answers another message of the session, and takes the waiting ones next.
    - `unknown_agent`: no living process has the agent, so the work is left to one that will.
    - `no_room`: no process has taken the work yet.
    - `no_process`: no process that answers is alive.
    - `engine`: the engine calls no worker.
    """

    reason: PendingReason
    agent: str | None = None
    invocation_id: str | None = None
    until: datetime | None = None


class SessionShown(SessionRow):
    """A session.

    - `busy`: a message is being answered.
    - `queued`: the number of waiting messages.
    - `running`: the invocations in progress.
    - `active_agent`: the agent that answered last.
    - `pending`: why the session waits. Only `get_session` says it.
    - `holder`: the process that answers; only for operators.
    """

    busy: bool
    queued: int
    turns: int
    active_agent: str | None = None
    running: list[str] = []
    waits: list[OpenWait] = []
    pending: list[PendingShown] = []
    holder: str | None = None


class SessionState(BaseModel):
    """The session's state, with the state that its user's sessions share (`user:`). Only operators see `app:` state."""

    session_id: str
    revision: int
    state: dict[str, JsonValue]


class EventPage(BaseModel):
    """A page of events. Pass `next` as `after` to get the next page; null means the last page."""

    events: list[Event]
    next: int | None = None


class ArtifactShown(BaseModel):
    """One version of an artifact. `size` is in bytes."""

    name: str
    version: int
    mime_type: str
    size: int


class ArtifactList(BaseModel):
    artifacts: list[ArtifactShown]


class DecisionShown(BaseModel):
    """A decision. `text` is the beginning of the message; `label` is the agent that should have been chosen, as labelled
    later.
    """

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


class FacetCount(BaseModel):
    """The decisions with one value. Only callers with `decisions:label` get `labelled` and `contradicted`."""

    name: str
    count: int
    clarified: int = 0
    labelled: int = 0
    contradicted: int = 0


class Confusion(BaseModel):
    """Decisions for `agent` that were labelled with another agent."""

    agent: str
    label: str
    count: int


class TimeShown(BaseModel):
    """The decisions in a part of time that begins at `start`."""

    start: datetime
    count: int
    clarified: int


class DecisionCountsShown(BaseModel):
    """The numbers of the newest decisions.

    - `total`: how many match the filter, of `examined` ones. `complete` is false if there are older ones.
    - `confidence`: by tenth, `0` to `9`.
    - `policies`: by fingerprint.
    - `seconds`: the width of the parts of time.
    """

    total: int
    examined: int
    complete: bool
    agents: list[FacetCount]
    methods: list[FacetCount]
    outcomes: list[FacetCount]
    confidence: list[FacetCount]
    policies: list[FacetCount]
    confusions: list[Confusion]
    seconds: int
    times: list[TimeShown]


class Me(BaseModel):
    """The caller, and the app.

    - `user`: the owner of the caller's sessions; null if each request has to name a user.
    - `acts_for_users`: whether the caller may send messages as any user.
    - `permissions`: what the caller may do, each for `own` or `all` users.
    - `authenticated`, `artifacts`, `definitions`: whether this gateway needs credentials, the app stores files and definitions.
    """

    user: str | None
    role: Literal["user", "operator", "admin"]
    acts_for_users: bool
    permissions: dict[str, Literal["own", "all"]]
    authenticated: bool
    artifacts: bool
    definitions: bool
    app: str
    policy: str
    version: str


class StageShown(BaseModel):
    """A stage of the policy: its name in decisions, its selector and the options that differ from the defaults."""

    name: str
    selector: str
    options: dict[str, JsonValue]


class SegmentShown(BaseModel):
    """Overrides for the callers for which `when` holds."""

    name: str
    when: dict[str, list[str]]
    options: dict[str, dict[str, JsonValue]]
    default: str | None


class PolicyShown(BaseModel):
    """The policy that selects agents: its stages in order. `default` answers when every stage abstains."""

    name: str
    fingerprint: str
    tree_version: str
    default: str
    several: str | None
    stages: list[StageShown]
    segments: list[SegmentShown]


class ProcessShown(BaseModel):
    """A process that shares this app's store. `silent_seconds` is the age of its heartbeat, `sessions` the number of its
    leases of this app.
    """

    name: str
    started_at: datetime
    silent_seconds: float
    timeout_seconds: float
    sessions: int


class RestingAgent(BaseModel):
    """An agent that gets no messages, because its surroundings failed for several users."""

    agent: str
    until: datetime
    """The end of the rest. The next message after it is a probe."""
    rests: int
    """How many rests followed each other."""
    probing: bool
    """Whether a probe is being answered."""


class Operations(BaseModel):
    """The processes and queues of the app, and its resting agents."""

    processes: list[ProcessShown]
    queued_messages: int
    queued_sessions: int
    longest_queue: int
    guardrail_threads_stuck: int
    resting: list[RestingAgent]
    """The agents that rest now."""


class SkillShown(BaseModel):
    name: str
    description: str = ""


class Matching(BaseModel):
    """How an agent is matched, and who may reach it. Only for operators."""

    examples: list[str]
    skills: list[tree.Skill]
    patterns: list[tree.Pattern]
    roles: list[str]
    resume: Literal["auto", "never", "always"]
    routable: bool
    enabled: bool
    time_limit: float | None = None


class AgentShown(BaseModel):
    """An agent. `parent` and `children` are its place in the tree."""

    name: str
    description: str
    kind: tree.Kind
    parent: str | None = None
    children: list[str]
    tags: list[str]
    skills: list[SkillShown]
    matching: Matching | None = None


class AgentPage(BaseModel):
    agents: list[AgentShown]
    next: str | None = None


class Alive(BaseModel):
    status: Literal["alive"]


class Ready(BaseModel):
    status: Literal["ready"]
    guardrail_threads_stuck: int
    """The number of threads of this process in a check that took longer than its limit."""
    revision: int = optional(0)
    """The revision of the definitions that serves here; absent without definitions."""
    refused: str = optional("")
    """The code of the mistake that keeps a newer revision from being served; absent without one. The log has the reason."""


class Version(BaseModel):
    version: str = Field(examples=["0.1.0"])


class AddHold(Body):
    """Adds a legal hold on a user's data."""

    user: str = Field(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)
    reason: str = Field(min_length=1, max_length=4000, pattern=PLAIN)


class HoldShown(BaseModel):
    """A legal hold: while it exists, nothing of the user is deleted."""

    id: str
    user: str
    author: str
    at: datetime
    reason: str


class HoldList(BaseModel):
    holds: list[HoldShown]


class AuditShown(BaseModel):
    """An entry of the audit log. `user` is null for an act on the app, and after the user's erasure."""

    id: str
    at: datetime
    actor: str
    action: str
    user: str | None
    session_id: str | None
    details: dict[str, JsonValue]


class AuditPage(BaseModel):
    entries: list[AuditShown]
    next: str | None = None
