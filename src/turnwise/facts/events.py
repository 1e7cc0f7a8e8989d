"""Events: the immutable entries of a session's log. An event's branch is the place of its agent run within the invocation."""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart
from turnwise.facts.fact import Fact, optional
from turnwise.facts.memory import MemoryEntry, ShownMemory
from turnwise.facts.selections import Selection
from turnwise.facts.usage import Usage

_ESCAPED = re.compile("%([0-9A-F]{2})")


def segment_of(name: str) -> str:
    """Returns a name as a segment of a branch. Escapes the special characters of branches, so names cannot forge one."""
    return "".join(f"%{ord(c):02X}" if c in "%/~>#" else c for c in name)


def name_of(segment: str) -> str:
    """Returns the agent's name in a segment: the inverse of `segment_of`, without the marks of parallel and private runs."""
    name = segment.lstrip("~>").partition("#")[0]
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), name)


class Branch(str):
    """The place of an agent run within its invocation: a path of segments joined by `/`.

    The first segment is the number of the turn. A segment with `~` is a child of a parallel agent; a segment with `>` is a
    privately called agent. The empty branch is outside of all runs, as users' events are. A branch is stored as its text.
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @classmethod
    def of_turn(cls, number: int) -> "Branch":
        """Returns the branch of the agent that has the turn with that number."""
        return cls(number)

    def child(self, segment: str) -> "Branch":
        """Returns the branch of a run that this run starts. `segment` may have several parts."""
        return Branch(f"{self}/{segment}")

    def private_call(self, agent: str, name: str) -> "Branch":
        """Returns the branch of the agent that this run calls privately. `name` tells its calls apart."""
        return self.child(f">{segment_of(agent)}#{segment_of(name)}")

    def step_key(self, key: str) -> str:
        """Returns the key under which a step of this run is recorded."""
        return f"{self}:{key}"

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments, topmost first. The empty branch has none."""
        return tuple(self.split("/")) if self else ()

    @property
    def last(self) -> str:
        """The last segment; empty for the empty branch."""
        return self.rpartition("/")[2]

    @property
    def parent(self) -> "Branch":
        """The branch of the run that started this one; empty for the run of a turn."""
        return Branch(self.rpartition("/")[0])

    @property
    def caller(self) -> "Branch":
        """The branch of the run that made the innermost private call above this run; empty when there is none."""
        return Branch(self.rpartition("/>")[0])

    @property
    def call_depth(self) -> int:
        """The number of private calls above this run."""
        return self.count("/>")

    @property
    def is_private(self) -> bool:
        """True if the run belongs to a privately called agent."""
        return "/>" in self

    @property
    def is_in_parallel(self) -> bool:
        """True if the run, or one above it, is a child of a parallel agent."""
        return any(segment.startswith("~") for segment in self.segments)

    def with_ancestors(self) -> Iterator["Branch"]:
        """Yields this branch and those above it, nearest first. Yields nothing for the empty branch."""
        branch = self
        while branch:
            yield branch
            branch = branch.parent

    def holds(self, other: "Branch") -> bool:
        """Returns whether `other` is this branch or below it. The empty branch holds only itself."""
        return other == self or other.startswith(f"{self}/")

    def below(self, above: "Branch") -> "Branch | None":
        """Returns the part of this branch below `above`; None if it is not below it."""
        return Branch(self.removeprefix(f"{above}/")) if self != above and above.holds(self) else None

    def is_of_turn(self, number: int) -> bool:
        """Returns whether the run is the turn with that number, or below it."""
        return Branch.of_turn(number).holds(self)

    def sees(self, other: "Branch") -> bool:
        """Returns whether the agent on this branch sees an event of the same invocation on the branch `other`.

        Children of one parallel agent see neither each other nor each other's calls. Later agents see everything except
        private calls (behaviour A41).
        """
        mine, theirs = self.segments, other.segments
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False)))
        if shared < min(len(mine), len(theirs)) and mine[shared].startswith("~") and theirs[shared].startswith("~"):
            return False
        return not any(segment.startswith(">") for segment in theirs[shared:])


NO_BRANCH = Branch()


USER = "user"
"""The author of users' messages."""

EndReason = str
"""completed, clarify, failed, cancelled, blocked, loop, or `limit:<which>`."""
LIMIT = "limit:"
"""The prefix of end reasons that name a limit."""


class Await(Fact):
    """An agent waits: for the user's next message to it (`reply`), or for the result of a tool call (`tool_result`)."""

    id: str
    """The id of the wait, or of the awaited tool call."""
    kind: Literal["reply", "tool_result"] = "reply"
    expires_at: datetime | None = None
    """None means the session's lifetime."""


class StepRecord(Fact):
    """The recorded result of `context.step`: work that is not repeated."""

    key: str
    """Begins with the branch of the agent's run."""
    value: JsonValue = None
    says: bool = optional(False)
    """True if the event's own content is the result (`context.once`). The event that begins a new attempt holds that content
    as `value`.
    """
    call: str | None = optional(None)
    """The id of the tool call that returned the value, as `{"result": …, "failed": …}`."""
    state_delta: dict[str, JsonValue] = Field(default_factory=dict)
    """The state that the work wrote, so that a new attempt restores it without the work."""
    artifact_versions: dict[str, int] = Field(default_factory=dict)
    """The artifact versions that the work saved."""
    remembered: tuple[MemoryEntry, ...] = optional(())
    """The entries that the work remembered, without their texts in the log."""
    recalled: tuple[str, ...] = optional(())
    """The ids of the memory entries with texts in the value."""
    model_calls: int = optional(0)
    """The number of model calls for the content, when an event of an earlier attempt counted them."""


class Rewind(Fact):
    """Hides all events from sequence number `from_sequence` up to this event. The hidden events stay in the log.

    A user rewinds the session with it; a new attempt hides the unfinished turn of the attempt before.
    """

    from_sequence: int
    invocation_id: str


class End(Fact):
    """The end of an invocation."""

    reason: EndReason = "completed"
    detail: str = ""
    """Explains an end that is not `completed`."""


class ErrorInfo(Fact):
    """A recorded error with its stable code."""

    code: str
    message: str
    """For developers and operators."""


class Guarded(Fact):
    """A guardrail's rewrite or block of an event. The event never holds what the guardrail removed."""

    guardrail: str
    action: Literal["rewrite", "block"]
    reason: str = ""
    call_id: str | None = None
    """The id of the tool call concerned; None for other content."""


class Summary(Fact):
    """The author's summary of the conversation up to and including sequence number `until`."""

    text: str
    until: int


class JobRequest(Fact):
    """A request for a background job, run after the turn by any process."""

    kind: str
    """The kind of work. An agent has at most one open job of a kind per session."""
    until: int
    """The job works on the log up to and including this sequence number."""
    scopes: tuple[str, ...] | None = None
    """The labels that the author sees; None means all."""


class Actions(Fact):
    """The effects of an event beside its content. All are optional."""

    state_delta: dict[str, JsonValue] = Field(default_factory=dict)
    """Keys to write, with prefix `app:`, `user:` or none for the session. A None value removes the key."""
    artifact_versions: dict[str, int] = Field(default_factory=dict)
    """The artifacts saved with this event, by name."""
    transfer_to: str | None = None
    """The agent that gets the next turn."""
    brief: Content | None = None
    """The target's message in place of the user's last message. On a user's event: the agent's message in place of this one,
    which only chose an agent.
    """
    stopped: End | None = None
    """The end that the invocation will have, because transfers were stopped."""
    next: str | None = None
    """The agent named by a `<next>` tag in the answer."""
    escalate: bool = False
    """True to leave the enclosing loop."""
    awaits: Await | None = None
    """The wait that this event opens."""
    state_before: dict[str, JsonValue] = Field(default_factory=dict)
    """After a wait or checkpoint: the earlier values of the changed keys, None for absent ones. Each key is recorded once."""
    answers: str | None = None
    """The id of the wait that this message answers."""
    selection: Selection | None = None
    """The decision that selected the agent."""
    positions: dict[str, int] = Field(default_factory=dict)
    """The selectors' positions in fixed orders, by key."""
    steps: tuple[StepRecord, ...] = ()
    """Recorded steps. The event that begins a new attempt repeats the steps of earlier attempts, and so do the events that
    store their writes again.
    """
    finished: tuple[Branch, ...] = ()
    """Branches that ran to their end before this event; a resumed turn skips them."""
    checkpoint: bool = optional(False)
    """True if a new attempt resumes after this event and hides nothing up to it."""
    blocked_by: str | None = None
    """The guardrail that stopped the author before it answered."""
    guarded: tuple[Guarded, ...] = optional(())
    """The changes that guardrails made to this event."""
    usage: Usage | None = optional(None)
    """The usage of the model call for this event."""
    cut_off: str | None = optional(None)
    """The reason why the answer is incomplete: `tokens` for the model's limit, `parts` for `limits.parts`."""
    note: str | None = optional(None)
    """The note on its situation that the author's model got right before this event, besides the conversation. Later requests
    repeat it at the same place.
    """
    note_memory: tuple[ShownMemory, ...] = optional(())
    """The entries of the user's memory that the author's model got with the note."""
    summary: Summary | None = optional(None)
    """A summary that the author's model may read in place of older events."""
    remembered: tuple[MemoryEntry, ...] = optional(())
    """Entries for the user's memory. The store keeps them in the transaction of the append; in the log they have no text."""
    recalled: tuple[str, ...] = optional(())
    """The ids of the entries with texts in this event's tool results or in `note_memory`."""
    jobs: tuple[JobRequest, ...] = optional(())
    """Background jobs of the author. The store keeps them from the append of this event on."""
    rewind: Rewind | None = None
    end: End | None = None


NO_ACTIONS = Actions()


class Event(Fact):
    """One entry of a session's log, or a partial event, which is streamed but never stored."""

    id: str
    author: str
    """`user` or an agent's name."""
    invocation_id: str
    created_at: datetime
    content: Content | None = None
    actions: Actions = Field(default_factory=lambda: NO_ACTIONS)  # pydantic would deep-copy a default for each event
    error: ErrorInfo | None = None
    branch: Branch = NO_BRANCH
    """The place of the run within the invocation."""
    within: str = optional("")
    """The key of the recorded step in which the event arose; empty outside of steps."""
    scope: tuple[str, ...] = ()
    """Opaque labels by which transcripts may filter."""
    attempt: int = 1
    """Starts at 1 and increases when the invocation runs again because its process died. The event that begins a new attempt
    hides the events of the attempt before.
    """
    partial: bool = False
    """True if this is a piece of a streamed answer. It shares its id with the final event; its content is the next piece."""
    offset: int | None = None
    """For a partial event, the number of text characters before its piece."""
    sequence: int | None = None
    """The position in the log, from 1 without gaps; None until the event is stored."""

    @property
    def text(self) -> str:
        """The text of the content; empty when there is none."""
        return self.content.text if self.content else ""

    @property
    def speaks(self) -> bool:
        """True if the author used its turn: it has content, transfers, or waits."""
        actions = self.actions
        if self.error or actions.blocked_by:
            return False
        said = self.content is not None and bool(self.content.parts)
        return said or actions.transfer_to is not None or actions.awaits is not None

    @property
    def is_answer(self) -> bool:
        """True if the event answers or names the next agent. Tool calls, results and thinking alone are no answer."""
        parts = self.content.parts if self.content else ()
        return bool(self.text or self.actions.next) or any(isinstance(p, DataPart | BlobPart | ArtifactPart) for p in parts)

    @property
    def is_private(self) -> bool:
        """True if the event belongs to a privately called agent: other agents neither see nor resume it."""
        return self.branch.is_private

    def with_actions(self, **changes: Any) -> Self:
        """Returns the event with the given actions replaced; the other actions stay."""
        return self.replace(actions=self.actions.replace(**changes))

    def with_content(self, content: Content | None) -> Self:
        """Returns the event with that content."""
        return self.replace(content=content)


def in_scope(event: Event, viewer: str, sees: frozenset[str] | None) -> bool:
    """Returns whether an agent with these labels sees the event (behaviour D7).

    Hides only events of other agents that have labels, none of which is in `sees` or below one in it.

    Args:
        event: The event.
        viewer: The agent's name.
        sees: Labels, as paths of names joined by `/`; None sees everything.
    """
    if sees is None or not event.scope or event.author in (USER, viewer):
        return True
    return any(start in sees for label in event.scope for start in _starts(label))


def _starts(label: str) -> Iterator[str]:
    """Yields the label and its ancestors."""
    yield label
    while "/" in label:
        label = label.rpartition("/")[0]
        yield label
