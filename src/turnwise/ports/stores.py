"""Where things are kept: sessions and artifacts. The conformance suites in `turnwise.testing` say the same in tests."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydantic import JsonValue

from turnwise.facts.events import Event, JobRequest
from turnwise.facts.messages import Message
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.signals import Signals

T = TypeVar("T")


class Lease(NamedTuple):
    """A claim to be the one writer of a session: who, and for how many seconds if it is not renewed."""

    holder: str
    seconds: float


class Receipt(NamedTuple):
    """What became of a message: where it stands, and whether it had been accepted before.

    state: `queued` (in the inbox), `started` (its invocation began) or `refused` (it could not be run; `problem` says why).
    invocation_id is None while queued. The message is the one first accepted under this id, once started as it was answered:
    guardrails may have rewritten it.
    """

    message: Message
    state: str
    invocation_id: str | None
    repeated: bool
    problem: str = ""


class InboxLengths(NamedTuple):
    """What waits in an app: how many messages, in how many sessions, and how many in the session with the most."""

    messages: int
    sessions: int
    longest: int


class SessionInfo(NamedTuple):
    """A row of a list: no state, no events."""

    key: SessionKey
    revision: int
    last_sequence: int
    created_at: datetime
    updated_at: datetime


class Page(NamedTuple, Generic[T]):
    """One page, and the cursor of the next; None at the end."""

    items: tuple[T, ...]
    next: str | None


class Decision(NamedTuple):
    """A selection as it can be searched across sessions, with the label somebody gave it (None: none)."""

    key: SessionKey
    sequence: int
    invocation_id: str
    text: str
    selection: Selection
    created_at: datetime
    label: str | None = None


class InvocationInfo(NamedTuple):
    """How an invocation stands: a row of a list.

    sequence, event_id: of the user's message that began it, where its decision is. state: `running`, `waiting`, or why it ended
    (`EndReason`); None = an older version wrote it, and the log alone says. changed_at: since when it stands so; without a
    state, when it began.
    """

    key: SessionKey
    sequence: int
    event_id: str
    invocation_id: str
    state: str | None
    changed_at: datetime


class BackgroundJob(NamedTuple):
    """A stored job. event_id: of the event that asked for it, by `agent`; with the kind it names the job in its session.

    attempt: counts the claims from 1, those of processes that died among them.
    """

    key: SessionKey
    agent: str
    event_id: str
    request: JobRequest
    attempt: int

    @property
    def name(self) -> tuple[SessionKey, str, str]:
        """Names the job among all of a store."""
        return self.key, self.request.kind, self.event_id


class Inbox(Protocol):
    """The messages of a session: accepted means stored here, in the order of acceptance."""

    async def accept(self, key: SessionKey, message: Message, *, create: bool, limit: int) -> Receipt:
        """Puts the message in the session's inbox; the same id again changes nothing and gives the first receipt.

        SessionMissing unless `create`; QueueFull when `limit` messages are queued.
        """
        ...

    async def receipt(self, key: SessionKey, message_id: str) -> Receipt | None:
        """What became of that message; None when it was never accepted."""
        ...

    async def queued(self, key: SessionKey) -> Message | None:
        """The oldest message of the inbox, left there; None when it is empty."""
        ...

    async def refuse(self, key: SessionKey, message_id: str, problem: str) -> None:
        """Takes a queued message that cannot be run out of the inbox, and keeps why."""
        ...

    async def lengths(self, app: str) -> InboxLengths:
        """How much waits in the inboxes of an app now. Its cost goes by the sessions that are busy, not by all."""
        ...


class Decisions(Protocol):
    """Every selection of an app, searchable across sessions, with labels beside them."""

    async def search(
        self,
        app: str,
        *,
        user: str | None = None,
        key: SessionKey | None = None,
        agent: str | None = None,
        method: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Decision]:
        """Decisions, oldest first, of all users and sessions or of one; `after` is a page's cursor. CursorInvalid."""
        ...

    async def find(self, key: SessionKey, sequence: int) -> Decision | None:
        """The decision recorded at that sequence number; None when there is none."""
        ...

    async def label(self, key: SessionKey, sequence: int, label: str | None) -> None:
        """Labels the decision recorded at that sequence number with the agent that should have been chosen.

        None takes the label away. InvocationMissing when there is no decision there.
        """
        ...

    async def invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[InvocationInfo]:
        """A user's invocations, or those of one session of his, the one that changed last first; `after` is a page's cursor.

        Each stands there as of the append that let it. What a rewind took back is not listed, nor what a fork copied. states:
        only these, and those of which it is not known; `limit:` = any limit. since: only what changed then or later.
        CursorInvalid.
        """
        ...

    async def count_invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many there are on all pages of `invocations`."""
        ...


class Leases(Protocol):
    """Who writes to which session: how claims last, what was left unclaimed, and word for whoever has one."""

    async def renew(self, session: Session, lease: Lease) -> None:
        """Prolongs the lease. StaleWriter when it was lost."""
        ...

    async def release(self, session: Session) -> None:
        """Gives up the lease without an append; nothing happens when it was lost."""
        ...

    async def due(self, app: str, *, limit: int = 100) -> Sequence[SessionKey]:
        """Sessions of an app that nobody holds although something is to be done there, in no order: their lease ran out
        instead of being given up, or messages are in their inbox.
        """
        ...

    async def stop(self, key: SessionKey, invocation_id: str) -> None:
        """Leaves word that this invocation is to be stopped, for whoever holds the session, or recovers it.

        Nothing happens when it is not open (any more).
        """
        ...

    async def stops(self, holder: str) -> Sequence[tuple[SessionKey, str]]:
        """Which invocations are to be stopped in the sessions that this holder has, by what `stop` left."""
        ...


class Jobs(Protocol):
    """The open jobs of a store. Raises StoreError.

    `SessionStore.append`, `begin` and `take` store a job in the transaction of the event that asks for it
    (`actions.jobs`). They leave it out when its agent has an open one of that kind in the session. A rewind that hides an
    event up to the job's `until` deletes the job. Deleting the session deletes it, too; a fork has no copy.
    """

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[BackgroundJob]:
        """Takes open jobs of an app that nobody holds, and whose pause is over, the oldest first.

        Costs one read when there are none.
        """
        ...

    async def renew(self, lease: Lease) -> Collection[BackgroundJob]:
        """Prolongs the claims of that holder, and returns its jobs. A job that is missing was deleted, or lost to another."""
        ...

    async def put_back(self, job: BackgroundJob, holder: str, *, pause: float = 0.0, counts: bool = True) -> None:
        """Gives up the claim; the job can be claimed again in `pause` seconds. Nothing happens when the claim was lost.

        counts: whether this attempt is one of those that `BackgroundJob.attempt` counts.
        """
        ...

    async def finish(self, job: BackgroundJob, holder: str) -> None:
        """Deletes the job. Nothing happens when the claim was lost."""
        ...


class SessionStore(Protocol):
    """Keeps sessions and their logs.

    Every method is atomic and durable when it returns. Values go in and out as copies. A `Session` is a token: an append
    is accepted when its epoch and revision are still the stored ones, refused with StaleWriter otherwise. Raises StoreError
    when the place itself has a problem; then nothing of the call was stored. After StoreUnavailable that is not known, and
    the same call may be made again: what was stored is found by its ids and not stored twice.
    """

    @property
    def inbox(self) -> Inbox: ...

    @property
    def decisions(self) -> Decisions: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def signals(self) -> Signals:
        """How the processes that share this store wake each other."""
        ...

    async def create(self, key: SessionKey, *, state: dict[str, JsonValue] | None = None) -> Session:
        """An empty session whose state is split by scope. SessionExists when the key is taken."""
        ...

    async def open(self, key: SessionKey, *, blank: bool = False) -> Session | None:
        """The session's head and state, or None. Its cost does not depend on the length of the log.

        With `blank`, a missing session is given as an empty one of revision 0, not yet stored: `begin` stores it.
        """
        ...

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        invocation_id: str | None = None,
        hidden: bool = False,
    ) -> list[Event]:
        """Events in append order with their sequence numbers; [] for a missing session.

        after: only higher numbers; before: only lower ones. last: only the newest that many (still oldest first). limit: at
        most that many, oldest first. hidden: also those that a rewind hides.
        """
        ...

    async def begin(
        self, session: Session, lease: Lease, message: Message, events: Sequence[Event], *, queue_limit: int | None
    ) -> Session:
        """One transaction: takes the lease (the epoch goes up), appends, and marks the message started or accepts it so.

        Stores a blank session, and forgets what `stop` left. Made again by the same holder, it gives the session as it was
        begun. Raises SessionBusy when somebody else holds the lease, or older messages wait in the inbox:
        the message is then in the inbox, as by `Inbox.accept` with the limit `queue_limit`; nowhere if that is None.
        StaleWriter when the revision is old or the message was started before; nothing is stored.
        """
        ...

    async def take(self, session: Session, lease: Lease, events: Sequence[Event], *, release: bool = False) -> Session:
        """One transaction: takes the lease of a session that nobody holds (the epoch goes up), and appends as `append` does.

        SessionBusy when somebody else holds it, StaleWriter when the revision is old; nothing is stored then.
        """
        ...

    async def append(self, session: Session, events: Sequence[Event], *, release: bool = False) -> Session:
        """Appends in order, folds the head, and gives up the lease if `release`. Events already stored are left out.

        StaleWriter when epoch or revision are not the stored ones, unless every event is already stored.
        An event with a rewind hides what it names and the head is folded anew over what stays visible.
        """
        ...

    async def list(self, app: str, *, user: str | None = None, after: str | None = None, limit: int = 50) -> Page[SessionInfo]:
        """Sessions of an app, or of one user of it, ordered by user and id; `after` is a page's cursor. CursorInvalid."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Deletes the session with its log, inbox, decisions and jobs. Idempotent."""
        ...

    async def delete_user(self, app: str, user: str) -> None:
        """Deletes every session of that user and the user's state. Idempotent."""
        ...

    async def fork(self, key: SessionKey, new_id: str, *, before_invocation: str | None = None) -> Session:
        """A copy of the visible log under a new id, or of what came before that invocation. Open invocations stay behind.

        SessionMissing, SessionExists, InvocationMissing.
        """
        ...

    async def check_writable(self) -> None:
        """Commits a write that changes nothing. StoreError when the store takes no writes: unreachable, read-only, full."""
        ...

    async def close(self) -> None:
        """Gives back connections and threads. Idempotent."""
        ...


class ArtifactInfo(NamedTuple):
    """One version of an artifact. `size` in bytes; versions count from 1."""

    name: str
    version: int
    mime_type: str
    size: int


class Artifact(NamedTuple):
    info: ArtifactInfo
    data: bytes


class ArtifactStore(Protocol):
    """Keeps named, versioned blobs of a session; names that begin with `user:` belong to the user in all sessions.

    Raises ArtifactName for a name that could leave its place, ArtifactTooLarge, StoreError.
    """

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Stores a new version, one above the newest; two saves at once never get the same."""
        ...

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        """That version, or the latest; None when there is none."""
        ...

    async def versions(self, key: SessionKey, name: str) -> tuple[ArtifactInfo, ...]:
        """All versions, oldest first; empty when there is none."""
        ...

    async def list(self, key: SessionKey) -> tuple[ArtifactInfo, ...]:
        """The latest version of each artifact the session sees, its user's included, by name."""
        ...

    async def delete(self, key: SessionKey, name: str) -> None:
        """Deletes all versions. Idempotent."""
        ...

    async def delete_session(self, key: SessionKey) -> None:
        """Deletes the session's artifacts and leaves the user's. Idempotent."""
        ...

    async def delete_user(self, app: str, user: str) -> None:
        """Deletes everything of that user. Idempotent."""
        ...

    async def close(self) -> None: ...
