"""An event: an immutable fact of a session's log."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart
from turnwise.facts.fact import Fact, optional
from turnwise.facts.selections import Selection
from turnwise.facts.usage import Usage

USER = "user"

EndReason = str
"""completed, clarify, failed, cancelled, blocked, loop, or `limit:<which>`."""
LIMIT = "limit:"
"""How the reasons of ends begin that came of a limit."""


class Await(Fact):
    """An agent waits: for the user's next message to it (`reply`), or for the result of a tool call (`tool_result`).

    `id` is the call's id when a tool result is awaited. `expires_at` None means the session's lifetime.
    """

    id: str
    kind: Literal["reply", "tool_result"] = "reply"
    expires_at: datetime | None = None


class StepRecord(Fact):
    """The recorded result of `context.step`: work that is not repeated. `key` begins with the branch of its agent's run.

    says: the result is what the event says that it stands in (`context.once`); the event that begins a new attempt holds
    it as the value. call: the id of the tool call whose result the value is, as `{"result": …, "failed": …}`.
    state_delta, artifact_versions: what the work wrote besides, so that a new attempt has it without the work. model_calls:
    how many answers of models it took to say it, when they are counted on the event that an attempt before said first.
    """

    key: str
    value: JsonValue = None
    says: bool = optional(False)
    call: str | None = optional(None)
    state_delta: dict[str, JsonValue] = Field(default_factory=dict)
    artifact_versions: dict[str, int] = Field(default_factory=dict)
    model_calls: int = optional(0)


class Rewind(Fact):
    """Hides all that was appended from sequence number `from_sequence` on, up to this event. The hidden stays in the log.

    A user takes the session back with it; a new attempt takes back what the one before left of its turn.
    """

    from_sequence: int
    invocation_id: str


class End(Fact):
    """The invocation is over. `detail` explains an end that is not `completed`."""

    reason: EndReason = "completed"
    detail: str = ""


class ErrorInfo(Fact):
    """What went wrong, with our stable code. `message` is for developers and operators."""

    code: str
    message: str


class Guarded(Fact):
    """That a guardrail rewrote or blocked something of an event: which, why, and for a tool call its id.

    The event holds what the guardrail left, never what it took out.
    """

    guardrail: str
    action: Literal["rewrite", "block"]
    reason: str = ""
    call_id: str | None = None


class Summary(Fact):
    """What the conversation was up to and with sequence number `until`, in a few words: its author's view of it."""

    text: str
    until: int


class JobRequest(Fact):
    """Work to be done after the turn, by any process, on the log up to and with sequence number `until`.

    kind: what is to be done; one job of a kind is open for an agent of a session at a time. scopes: the labels that the
    author sees, None = everything.
    """

    kind: str
    until: int
    scopes: tuple[str, ...] | None = None


class Actions(Fact):
    """What an event does besides saying something. All optional.

    state_delta: keys to write (`app:`, `user:`, none = session); a None value removes the key.
    artifact_versions: artifacts saved with this event, by name.
    transfer_to: the agent who gets the floor; brief: what it is told instead of the user's last message (of a user's event:
    instead of that message, which only chose an agent); stopped: hand-overs were stopped, and how the invocation will end for
    it.
    next: the agent named by a `<next>` tag in the answer. escalate: leave the enclosing loop.
    awaits: the invocation waits; answers: the id of the wait this message answers. state_before: once it has waited or come
    to a checkpoint: what the keys that it changed, and that no event before tells of, held before it began, None for absent
    ones.
    selection: why the agent was chosen. positions: places in fixed orders, by key.
    steps: recorded steps; the event that begins a new attempt holds those of the attempts before, and what holds their writes
    anew holds them again. finished: branches that
    ran to their end before this event, so a resumed turn skips them.
    blocked_by: the guardrail that stopped the author before it spoke; guarded: what guardrails changed in this event.
    checkpoint: a new attempt goes on behind this event, and takes back nothing up to it.
    usage: what the model took that made this. cut_off: why this is not all that its author's model had to say: `tokens`, it
    ran into its limit; `parts`, it was more than limits.parts. summary: what its author's model may read in place of older
    events. jobs: what the author is to do after the turn; the store keeps it from the append of this event on.
    """

    state_delta: dict[str, JsonValue] = Field(default_factory=dict)
    artifact_versions: dict[str, int] = Field(default_factory=dict)
    transfer_to: str | None = None
    brief: Content | None = None
    stopped: End | None = None
    next: str | None = None
    escalate: bool = False
    awaits: Await | None = None
    state_before: dict[str, JsonValue] = Field(default_factory=dict)
    answers: str | None = None
    selection: Selection | None = None
    positions: dict[str, int] = Field(default_factory=dict)
    steps: tuple[StepRecord, ...] = ()
    finished: tuple[str, ...] = ()
    checkpoint: bool = optional(False)
    blocked_by: str | None = None
    guarded: tuple[Guarded, ...] = optional(())
    usage: Usage | None = optional(None)
    cut_off: str | None = optional(None)
    summary: Summary | None = optional(None)
    jobs: tuple[JobRequest, ...] = optional(())
    rewind: Rewind | None = None
    end: End | None = None


NO_ACTIONS = Actions()


class Event(Fact):
    """One fact of a session.

    author: `user` or an agent's name. sequence: its place in the log, from 1, gap-free; None until it is stored.
    branch: where in the invocation it arose, a path of names joined by `/`; the first part is the turn's number, a part
    that begins with `~` is a child of a parallel agent, one that begins with `>` an agent called for its answer only.
    within: the key of the recorded step in whose work it was said; empty outside of steps.
    scope: opaque labels by which transcripts may filter. attempt: 1, and one more each time the invocation is run again
    because its process died; the event that begins a new attempt takes back what the last one left. partial: streamed only,
    never stored; it shares its id with the final event, its content is the next piece, and `offset` counts the characters
    of text before that.
    """

    id: str
    author: str
    invocation_id: str
    created_at: datetime
    content: Content | None = None
    actions: Actions = Field(default_factory=lambda: NO_ACTIONS)  # a default would be copied, deeply, for each event
    error: ErrorInfo | None = None
    branch: str = ""
    within: str = optional("")
    scope: tuple[str, ...] = ()
    attempt: int = 1
    partial: bool = False
    offset: int | None = None
    sequence: int | None = None

    @property
    def text(self) -> str:
        """The text of the content; empty when there is none."""
        return self.content.text if self.content else ""

    @property
    def speaks(self) -> bool:
        """True when the author did something with the floor: said something, handed it on, or waits."""
        actions = self.actions
        if self.error or actions.blocked_by:
            return False
        said = self.content is not None and bool(self.content.parts)
        return said or actions.transfer_to is not None or actions.awaits is not None

    @property
    def is_answer(self) -> bool:
        """True when it is a word of its author to the asker, or names the next agent: no tool call, no result, no thought."""
        parts = self.content.parts if self.content else ()
        return bool(self.text or self.actions.next) or any(isinstance(p, DataPart | BlobPart | ArtifactPart) for p in parts)

    @property
    def is_private(self) -> bool:
        """True when it arose in an agent that was called for its answer: others neither see nor resume it."""
        return "/>" in self.branch


def sees(viewer_branch: str, event_branch: str) -> bool:
    """Whether an agent on `viewer_branch` sees an event of the same invocation on `event_branch`.

    Children of one parallel agent do not see each other, nor what was called by another; whoever comes later sees all but
    private calls (behaviour A41).
    """
    viewer, event = viewer_branch.split("/"), event_branch.split("/")
    for mine, theirs in zip(viewer, event, strict=False):
        if mine != theirs:
            if mine.startswith("~") and theirs.startswith("~"):
                return False
            break
    shared = sum(1 for _ in _common(viewer, event))
    return not any(part.startswith(">") for part in event[shared:])


def in_scope(event: Event, viewer: str, sees: frozenset[str] | None) -> bool:
    """Whether an agent that sees these labels, and all below them, sees the event: it does unless the event is another
    agent's, has labels, and none of these (behaviour D7). A label is a path of names joined by `/`; None sees everything.
    """
    if sees is None or not event.scope or event.author in (USER, viewer):
        return True
    return any(start in sees for label in event.scope for start in _starts(label))


def segment_of(name: str) -> str:
    """An agent's name as part of a branch: the characters that branches are made of are escaped, so that names cannot forge."""
    return "".join(f"%{ord(c):02X}" if c in "%/~>#" else c for c in name)


def _starts(label: str) -> Iterator[str]:
    """The label, and those above it."""
    yield label
    while "/" in label:
        label = label.rpartition("/")[0]
        yield label


def _common(left: list[str], right: list[str]) -> list[str]:
    common = []
    for mine, theirs in zip(left, right, strict=False):
        if mine != theirs:
            break
        common.append(mine)
    return common
