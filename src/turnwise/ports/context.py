"""What an agent can see and do during its turn."""

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.cards import AgentCard
from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart
from turnwise.facts.events import Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.ports.assignment import Assignment
from turnwise.ports.selector import Selector
from turnwise.ports.stores import Artifact, ArtifactInfo

T = TypeVar("T")
Show = Callable[[Event], Awaitable[None]]
"""Passes a partial event on to whoever reads; nothing is stored."""


class Suspend(BaseException):
    """Raised through an agent that waits: its turn stops here, and is taken up again when the answer comes.

    Not an Exception, so that an agent's own `except Exception` does not swallow it.
    """


class History(Protocol):
    """The log as this agent may see it: its branch, nothing rewound, nothing private to others."""

    async def last(self, count: int = 20) -> list[Event]:
        """The newest events, oldest first; at most limits.history_events."""
        ...

    async def after(self, sequence: int, *, limit: int = 100) -> list[Event]:
        """Events with higher sequence numbers, oldest first."""
        ...

    def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        """Pages from the newest to the oldest, each oldest first, of `page` stored events less what this agent may not see;
        at most limits.history_events in all. Whoever has enough stops reading.
        """
        ...


class State(Protocol):
    """The merged state. What is written is seen at once and stored with the agent's next event, or at the turn's end.

    What is read is a copy: set it again to store a change of it. Keys begin with `app:`, `user:` or `temp:`, or belong to
    the session. Values are JSON values, copied; AgentFailed for others, LimitReached (state_bytes).
    """

    def __getitem__(self, key: str) -> Any: ...
    def __setitem__(self, key: str, value: Any) -> None: ...
    def __delitem__(self, key: str) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def get(self, key: str, default: Any = None) -> Any: ...


class Artifacts(Protocol):
    """The session's artifacts. ConfigError when the app has no artifact store."""

    async def save(self, name: str, data: bytes | str | BlobPart | TextPart, *, mime_type: str | None = None) -> ArtifactInfo:
        """Saves the next version of that artifact; it is recorded on the agent's next event.

        mime_type: None = that of the part, `text/plain; charset=utf-8` for text, `application/octet-stream` for bytes.
        ArtifactName for a name that could leave its place or that a guardrail does not let into the log, ArtifactTooLarge.
        """
        ...

    async def load(self, name: str, *, version: int | None = None) -> Artifact | None: ...
    async def list(self) -> tuple[ArtifactInfo, ...]: ...


class Stream(Protocol):
    """An answer in pieces: each is passed on at once, the whole is stored when the stream is left."""

    async def write(self, text: str) -> None: ...


class Outcome(NamedTuple):
    """How a child's run inside a composite ended.

    text: what it said last, empty if nothing. escalated: it asked to leave the loop. moved: it handed the floor to someone
    else, so the composite's turn is over. next: whom it named in its answer, if anyone. event: its last event that spoke.
    model_calls: how many answers of models it took, those of whom it called or ran included.
    """

    text: str = ""
    escalated: bool = False
    moved: bool = False
    next: str | None = None
    event: Event | None = None
    model_calls: int = 0


class AgentContext(Protocol):
    """One agent's turn. It holds the agent's card, never an agent."""

    @property
    def card(self) -> AgentCard: ...
    @property
    def session(self) -> SessionKey: ...
    @property
    def invocation_id(self) -> str: ...
    @property
    def message(self) -> Content:
        """The user's message, or what the caller handed to a called agent."""
        ...

    @property
    def assignment(self) -> Assignment | None:
        """The tasks that this turn is for; None outside of flows, and in private calls."""
        ...

    @property
    def message_context(self) -> MessageContext: ...
    @property
    def config(self) -> RunConfig: ...
    @property
    def notice(self) -> str:
        """Why this turn is unusual, for example that hand-overs ran in a loop; empty as a rule."""
        ...

    @property
    def model_calls(self) -> int:
        """How many answers of models this turn took so far, those of whom it called or ran included."""
        ...

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        """Whom `transfer` would accept now, in the tree's order; empty when no transfer is allowed."""
        ...

    @property
    def tree(self) -> AgentTree:
        """The cards of all agents, as they were when the invocation began."""
        ...

    @property
    def history(self) -> History: ...
    @property
    def state(self) -> State: ...
    @property
    def artifacts(self) -> Artifacts: ...

    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        """Says it; when this returns, it is stored."""
        ...

    def stream(self) -> AbstractAsyncContextManager[Stream]:
        """`async with context.stream() as out: await out.write("…")`: partial events, then one stored event."""
        ...

    async def ask(
        self,
        question: str | Content,
        *,
        tool: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        offered: bool = False,
    ) -> Content:
        """Asks the user and returns the reply. With `tool`, waits for the result of that tool call instead: whoever does such
        work gives it; with `offered`, the caller does, who offered that tool with its message (AgentFailed if it did not).

        The turn stops here, without holding anything, and the invocation waits. When the answer comes, in this process or
        another, the agent runs again from its beginning: what it said before is not said again, work inside `step` is not
        repeated, and `ask` returns the recorded answer. It is given the same message, and up to its last question the state
        reads as it was then. So before an `ask`, effects outside the session belong into a `step`, and so does whatever else
        decides which questions are asked; and questions that are asked side by side, each into one of its own.
        """
        ...

    async def results(self, *calls: str) -> tuple[ToolResultPart, ...]:
        """The results of these tool calls, by their ids, which this agent said before; they come as messages with tool
        results, in any order.

        Until all are there, the turn stops here as with `ask`, and the invocation waits.
        """
        ...

    async def transfer(self, agent: str, *, message: str | Content | None = None) -> None:
        """Hands the floor to that agent once this one's run ends; the first of two transfers wins.

        The target's message is `message`, or what the user said last, which after an `ask` is the reply.

        TransferRefused when the target is unknown or not allowed (it names the allowed ones), or a transfer was made before.
        """
        ...

    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        """Asks another agent of the app in private, and returns its last answer. The floor stays here.

        segment: names this call on the branch, once per turn; needed when calls are made side by side, as the order in which
        they begin may differ when the turn is run again. AgentFailed when it fails, LimitReached (call_depth).
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
        """Runs a child in the open, as composites do. `segment` names this run on the branch, once per turn.

        assignment: the tasks that the run is for; None = those of this one, which the child can read, but not end. When it is
        over there is nothing to run: what is on record counts. followed: unless the assignment is over with the run, something
        is said at once that has to be stored with the child's last word. private: it is any agent, asked as by `call`.
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
        """Asks a selector who of `among` speaks next, on the message or on an answer; the verdict is recorded.

        tasks: in a flow, how many ready tasks each of them has. lead: who works first, and takes what names nobody.
        A selector that raises, returns no verdict or names somebody else abstains, on record. When it abstains, the verdict
        chooses nobody; the asker falls back to its lead.
        """
        ...

    async def escalate(self) -> None:
        """Leaves the enclosing loop once this agent's run ends."""
        ...

    @property
    def recorded(self) -> Container[str]:
        """The keys of this run's steps that are on record: what is done under them is not done again."""
        ...

    @overload
    async def step(self, key: str, work: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, key: str, work: Callable[[], T]) -> T: ...
    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        """Does the work once: its result is recorded under `key`, and returned from the record if this turn is run again.

        The result is a JSON value, given back as JSON reads it: a tuple comes back as a list. AgentFailed for others. It is in
        the store, and no reader of the session's events sees it, but for the key.
        Guardrails do not look at it, unless it is a ToolResultPart: of that, `{"result": …, "failed": …}` is recorded and
        returned, with what they left, and a failed one says why it was blocked.
        """
        ...

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """Says the event that `make` gives, and returns it as it is stored: with what guardrails left of it.

        What is said is recorded under `key`, as in `step`, in the same append: if this turn is run again it is not made
        again. While it is made, pieces of it may be shown: partial events with its id. An event with an `end` is this
        agent's last word, and is stored with the end of the turn. One with a `checkpoint` is where a new attempt goes on, when
        this process dies: what stands before it in the log is not done again, as far as that needs no unfinished run.
        """
        ...

    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        """A new event of this agent, to yield; the keywords are fields of `Actions`."""
        ...
