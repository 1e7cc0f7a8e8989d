"""The context of an agent's turn: what the agent can read and do, and how a turn is stopped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart
from turnwise.facts.events import Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.memory import Entity, MemoryEntry, MemoryKind, Recalled, Span, Speaker
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.assignment import Assignment
from turnwise.ports.selector import Selector
from turnwise.ports.stores import Artifact, ArtifactInfo

T = TypeVar("T")
Show = Callable[[Event], Awaitable[None]]
"""Shows a partial event to readers; nothing is stored."""


class Suspend(BaseException):
    """Raised through an agent that waits: its turn stops here, and runs again when the answer comes.

    It is no Exception, so that an agent's own `except Exception` does not catch it.
    """


class History(Protocol):
    """The log as this agent may read it: on its branch, without rewound events and without private events of others."""

    @property
    def identity(self) -> Hashable:
        """Identifies the log and the reader's rights. Equal ones read the same events of other invocations."""
        ...

    async def last(self, count: int = 20) -> list[Event]:
        """Returns the newest events, oldest first; at most limits.history_events."""
        ...

    async def after(self, sequence: int, *, limit: int = 100) -> list[Event]:
        """Returns events with higher sequence numbers, oldest first."""
        ...

    async def since(self, event: Event, *, transcript: bool = False) -> list[Event] | None:
        """Returns the events after that one, oldest first.

        None means that the log does not hold the event any more, or that more than limits.history_events follow it. Then
        earlier reads are no longer valid: a rewind hides all events up to the end of the log.

        Args:
            event: The newest event that was read.
            transcript: Read only what transcripts show; see `SessionStore.events`.
        """
        ...

    def backwards(self, page: int = 40, *, transcript: bool = False) -> AsyncIterator[list[Event]]:
        """Yields pages from the newest to the oldest, each oldest first; at most limits.history_events in all.

        A page covers `page` stored events, without those that this agent may not see. A reader that has enough may stop.

        Args:
            page: The number of events of a page.
            transcript: Read only what transcripts show; see `SessionStore.events`.
        """
        ...


class State(Protocol):
    """The merged state. Writes are visible at once, and stored with the agent's next event or at the turn's end.

    Reads return copies: set a value again to store a change. Keys begin with `app:`, `user:` or `temp:`, or belong to the
    session. Values are JSON values; setting any other value raises AgentFailed, a large one LimitReached (state_bytes).
    """

    def __getitem__(self, key: str) -> Any: ...
    def __setitem__(self, key: str, value: Any) -> None: ...
    def __delitem__(self, key: str) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def get(self, key: str, default: Any = None) -> Any: ...


class Artifacts(Protocol):
    """The session's artifacts. Raises ConfigError when the app has no artifact store."""

    async def save(self, name: str, data: bytes | str | BlobPart | TextPart, *, mime_type: str | None = None) -> ArtifactInfo:
        """Saves the next version of the artifact. The agent's next event records it.

        Args:
            name: The artifact's name.
            data: The content.
            mime_type: None means that of the part, `text/plain; charset=utf-8` for text, `application/octet-stream`
                for bytes.

        Raises:
            ArtifactName: The name could escape its folder, or a guardrail does not allow it in the log.
            ArtifactTooLarge: The data exceeds limits.blob_bytes.
        """
        ...

    async def load(self, name: str, *, version: int | None = None) -> Artifact | None: ...
    async def list(self) -> tuple[ArtifactInfo, ...]: ...


class Memory(Protocol):
    """The memory of the user beyond this session. It is data: never an instruction, never a permission (behaviour G5)."""

    async def remember(
        self,
        text: str,
        *,
        kind: MemoryKind = "fact",
        span: Span = "long",
        this_session: bool = False,
        said_by: Speaker = "agent",
        entity: Entity | None = None,
        supersedes: Sequence[str] = (),
        id: str | None = None,
    ) -> MemoryEntry:
        """Remembers a text with the agent's next event. If this turn runs again, it is not stored twice.

        Agents that the caller's roles do not permit do not give their entries to other agents.

        Args:
            text: At most 4,000 characters.
            kind: The kind of entry.
            span: How long it is kept: 5 minutes, an hour, or for good, unless the app sets other times.
            this_session: Keep it for this session only, and not for all of the user's.
            said_by: The speaker of the text.
            entity: The thing that an entry of kind `entity` is about.
            supersedes: The ids of entries that it replaces.
            id: Unique for the user. None makes one from the place and the text.

        Raises:
            MemoryInvalid: The text is empty or too long, or a value is unknown.
        """
        ...

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        kinds: Collection[MemoryKind] | None = None,
        spans: Collection[Span] | None = None,
        said_by: Collection[Speaker] | None = None,
        key: str | None = None,
    ) -> list[Recalled]:
        """Returns the entries that fit the query best, best first. It is a step: recorded, and not repeated.

        With the store away it returns nothing, and the record says so.

        Args:
            query: Words or a sentence.
            limit: The most entries.
            kinds: Only entries of these kinds.
            spans: Only entries of these spans.
            said_by: Only what these said.
            key: The name of the step. Required for calls that run side by side.
        """
        ...

    async def entities(
        self, type: str | None = None, *, normal: str | None = None, limit: int = 20, key: str | None = None
    ) -> list[MemoryEntry]:
        """Returns the things that were mentioned, newest first, each once. It is a step, as `recall` is."""
        ...

    async def forget(self, *ids: str, key: str | None = None) -> int:
        """Deletes entries that this agent can recall, with those that they replace. Returns how many.

        Their texts are overwritten in recorded steps and tool results, too.
        """
        ...


class Stream(Protocol):
    """A streamed answer. Each piece is shown at once; the whole is stored when the block ends."""

    async def write(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a nested agent run."""

    text: str = ""
    """The last answer; empty when there is none."""
    escalated: bool = False
    """True if the agent asked to leave the loop."""
    moved: bool = False
    """True if the agent transferred to another agent, which ends the composite's turn."""
    next: str | None = None
    """The agent named in the answer, if any."""
    event: Event | None = None
    """The last event that answers."""
    model_calls: int = 0
    """The number of model calls, including those of nested agents."""


class AgentContext(Protocol):
    """The context of one agent's turn. It holds the agent's card, never an agent."""

    @property
    def card(self) -> AgentCard: ...
    @property
    def session(self) -> SessionKey: ...
    @property
    def invocation_id(self) -> str: ...
    @property
    def message(self) -> Content:
        """The user's message, or the caller's message to a called agent."""
        ...

    @property
    def assignment(self) -> Assignment | None:
        """The tasks of this turn; None outside of flows and in private calls."""
        ...

    @property
    def message_context(self) -> MessageContext: ...
    @property
    def config(self) -> RunConfig: ...
    @property
    def notice(self) -> str:
        """Why this turn is unusual, for example because transfers ran in a loop; usually empty."""
        ...

    @property
    def model_calls(self) -> int:
        """The number of model calls of this turn so far, including those of nested agents."""
        ...

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        """The agents that `transfer` would accept now, in the tree's order; empty when no transfer is allowed."""
        ...

    @property
    def transfer_candidates(self) -> tuple[str, ...]:
        """The agents to which this agent may transfer, available now or not, in the tree's order; empty when no transfer is
        allowed. They stay the same from turn to turn, as long as the tree and the caller's roles do.
        """
        ...

    @property
    def tree(self) -> AgentTree:
        """The cards of all agents, as of the invocation's beginning."""
        ...

    @property
    def history(self) -> History: ...
    @property
    def state(self) -> State: ...
    @property
    def artifacts(self) -> Artifacts: ...
    @property
    def memory(self) -> Memory: ...

    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        """Emits an answer and returns once it is stored."""
        ...

    def stream(self) -> AbstractAsyncContextManager[Stream]:
        """Streams an answer: `async with context.stream() as out: await out.write("…")`.

        Emits partial events, then one stored event.
        """
        ...

    async def ask(
        self,
        question: str | Content,
        *,
        tool: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        offered: bool = False,
    ) -> Content:
        """Asks the user and returns the reply. The turn stops here without holding resources, and the invocation waits.

        When the answer comes, in this or another process, the agent runs again from its beginning. Recorded answers are
        not emitted again, work inside `step` is not repeated, and `ask` returns the recorded reply. The agent gets the
        same message, and up to its last question the state reads as it did then.

        Before an `ask`, therefore, put effects outside the session into a `step`, and also anything else that decides which
        questions are asked. Questions that run side by side each belong into a step of their own.

        Args:
            question: The question.
            tool: Wait for the result of this tool call instead of a reply.
            arguments: The arguments of the tool call.
            offered: The tool is one that the caller offered with its message; the caller makes the call.

        Raises:
            AgentFailed: The caller did not offer the tool, or a guardrail blocked the question.
        """
        ...

    async def results(self, *calls: str) -> tuple[ToolResultPart, ...]:
        """Returns the results of these tool calls, which this agent emitted before, by their ids.

        They arrive as messages with tool results, in any order. Until all are there, the turn stops as with `ask`.
        """
        ...

    async def transfer(self, agent: str, *, message: str | Content | None = None) -> None:
        """Transfers to that agent once this agent's run ends. The first of two transfers wins.

        Args:
            agent: The target.
            message: The target's message; None means the user's last message, which after an `ask` is the reply.

        Raises:
            TransferRefused: The target is unknown or not allowed, or a transfer was made before. `allowed` names the
                allowed targets.
        """
        ...

    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        """Asks another agent of the app privately and returns its last answer. The turn stays with this agent.

        Args:
            agent: The agent to ask.
            message: The message.
            segment: The name of this call on the branch, unique within the turn. Required for calls that run side by
                side, since their order may differ when the turn runs again.

        Raises:
            AgentFailed: The called agent failed, or may not be called here.
            LimitReached: `call_depth`.
        """
        ...

    async def delegate(
        self,
        child: str,
        *,
        segment: str,
        message: Content | None = None,
        assignment: Assignment | None = None,
        followed: bool = False,
        private: bool = False,
    ) -> Outcome:
        """Runs a child visibly, as composites do.

        Args:
            child: The agent to run.
            segment: The name of this run on the branch, unique within the turn.
            message: The child's message; None means this agent's own.
            assignment: The tasks of the run; None passes on this turn's tasks, which the child can read but not end.
                If it is already over, the recorded outcome is returned.
            followed: The caller emits an event right after the run, to be stored with the child's last one, unless
                the assignment is over with the run.
            private: Run any agent privately, as `call` does.
        """
        ...

    async def select(
        self,
        selector: Selector,
        *,
        among: tuple[str, ...],
        answer: Event | None = None,
        tasks: Mapping[str, int] | None = None,
        lead: str | None = None,
    ) -> Verdict:
        """Asks a selector which agent of `among` continues, on the message or on an answer. Records the verdict.

        A selector that raises, returns no verdict or chooses another agent abstains, which is recorded. The verdict then
        chooses no agent, and the caller falls back to its lead.

        Args:
            selector: The selector.
            among: The agents to choose from.
            answer: The answer to decide on; None decides on the message.
            tasks: In a flow, the number of ready tasks of each agent.
            lead: The agent that works first and gets messages that name no agent.
        """
        ...

    async def escalate(self) -> None:
        """Leaves the enclosing loop once this agent's run ends."""
        ...

    @property
    def recorded(self) -> Container[str]:
        """The keys of this run's recorded steps; their work is not repeated."""
        ...

    @overload
    async def step(self, key: str, work: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, key: str, work: Callable[[], T]) -> T: ...
    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        """Does the work once. Records its result under `key`, and returns the recorded result if this turn runs again.

        The result must be a JSON value and is returned as JSON reads it: a tuple becomes a list. It is in the store, but
        readers of the session's events see only the key.

        Guardrails check the result only if it is a ToolResultPart. Then `{"result": …, "failed": …}` is recorded and
        returned, as the guardrails left it; a blocked one is failed and holds the reason.

        Raises:
            AgentFailed: The result is no JSON value.
        """
        ...

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """Emits the event that `make` returns, once, and returns it as stored, after guardrails.

        The content is recorded under `key`, as in `step`, in the same append. If this turn runs again, `make` is not
        called again. Meanwhile `make` may show partial events with the event's id.

        An event with an `end` is this agent's last one, and is stored with the end of the turn. At an event with a
        `checkpoint`, a new attempt resumes when this process dies: earlier events are kept, as far as no unfinished run
        needs them repeated.
        """
        ...

    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        """Returns a new event of this agent, to yield. The keywords are fields of `Actions`."""
        ...


def is_stopped(error: BaseException, task: "asyncio.Task[Any] | None") -> bool:
    """Returns whether the exception stops the code from outside and must propagate: its task was cancelled, or its coroutine
    closed.

    Any other exception is the code's own, including SystemExit, KeyboardInterrupt, and an unrequested GeneratorExit or
    cancellation.

    Args:
        error: The exception.
        task: The task that ran the code, as of the code's beginning.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    # A task never closes its own coroutine, so another task did.
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
