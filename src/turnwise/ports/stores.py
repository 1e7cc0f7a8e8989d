"""The protocols of session and artifact stores. The conformance suites in `turnwise.testing` test them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.events import Event, JobRequest
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.decisions import Decisions, Page
from turnwise.ports.maintenance import Maintenance
from turnwise.ports.memory import MemoryStore
from turnwise.ports.signals import Signals

PAGE_BYTES = 1024 * 1024
"""The size at which readers of a whole log end a page, beside its number of events."""


class Lease(NamedTuple):
    """The exclusive right to write to a session."""

    holder: str
    """The name of the writer."""
    seconds: float
    """The holder counts as dead when the heartbeat of its process is older. Its leases may then be taken."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The status of an accepted message."""

    message: Message
    """The message first accepted under this id. Once started, as guardrails left it."""
    state: str
    """`queued` (in the inbox), `started` (its invocation began) or `refused` (it could not be run)."""
    invocation_id: str | None
    """None while queued."""
    repeated: bool
    """True if the message had been accepted before."""
    problem: str = ""
    """Why the message was refused."""
    number: int = 0
    """The number of the message in its session's inbox, in order of acceptance."""
    after_others: bool = False
    """True if other messages waited in the inbox when this one was stored: the process that takes those takes this one, too."""


class InboxLengths(NamedTuple):
    """The queued messages of an app."""

    messages: int
    """The number of messages."""
    sessions: int
    """The number of sessions with messages."""
    longest: int
    """The number of messages in the longest inbox."""


class SessionInfo(NamedTuple):
    """A session in a list, without state and events."""

    key: SessionKey
    revision: int
    last_sequence: int
    created_at: datetime
    updated_at: datetime


class BackgroundJob(NamedTuple):
    """A stored background job."""

    key: SessionKey
    agent: str
    event_id: str
    """The id of the event that requested the job. With the kind, it identifies the job within its session."""
    request: JobRequest
    attempt: int
    """The number of claims, from 1, including those of dead processes."""

    @property
    def name(self) -> tuple[SessionKey, str, str]:
        """Identifies the job within a store."""
        return self.key, self.request.kind, self.event_id


class Inbox(Protocol):
    """The accepted messages of a session, in order of acceptance."""

    async def accept(
        self, key: SessionKey, message: Message, *, create: bool, limit: int, revision: int | None = None
    ) -> Receipt:
        """Stores the message in the session's inbox. Accepting the same id again changes nothing and returns the first
        receipt. `revision` is as for `SessionStore.begin`.

        Raises:
            SessionMissing: The session does not exist, and `create` is False or a revision is given.
            QueueFull: `limit` messages are queued.
            StaleWriter: The session does not have the revision. Nothing is stored.
        """
        ...

    async def receipt(self, key: SessionKey, message_id: str) -> Receipt | None:
        """Returns the status of that message; None when it was never accepted."""
        ...

    async def queued(self, key: SessionKey) -> Message | None:
        """Returns the oldest message of the inbox without removing it; None when it is empty."""
        ...

    async def refuse(self, key: SessionKey, message_id: str, problem: str) -> None:
        """Removes a queued message that cannot be run from the inbox, and stores the reason."""
        ...

    async def lengths(self, app: str) -> InboxLengths:
        """Returns the number of queued messages of an app. Its cost depends on the number of busy sessions only."""
        ...


class Leases(Protocol):
    """Leases of sessions, abandoned sessions, and stop requests.

    A lease lasts until it is released or its holder is dead; nothing is renewed for each session. From a holder's first lease
    or claim on, the store renews one heartbeat for it, by a thread. A busy event loop therefore keeps its leases. A holder
    without an open event loop is dead.
    """

    async def check(self, session: Session) -> None:
        """Raises StaleWriter when the lease was lost: the session was taken by another holder, or released."""
        ...

    async def leave(self, holder: str) -> None:
        """Ends the heartbeat of a holder of this process until its next lease: its leases may be taken at once. Idempotent."""
        ...

    async def release(self, session: Session) -> None:
        """Releases the lease without an append. Does nothing when it was lost."""
        ...

    async def deaths(self, holder: str) -> int:
        """Returns how often others found this holder dead while it lived. Reads no database."""
        ...

    async def due(self, app: str, *, limit: int = 100) -> Sequence[SessionKey]:
        """Returns sessions of an app that no process holds although they have work, in no order.

        Their holder died, or messages are in their inbox. The first call may take seconds: it learns which holders are dead.
        """
        ...

    async def expired(self, app: str, now: datetime, *, limit: int = 100) -> Sequence[SessionKey]:
        """Returns sessions of an app that no process holds and in which a wait expired by then, in no order."""
        ...

    async def next_expiry(self, app: str, now: datetime) -> tuple[SessionKey, datetime] | None:
        """Returns the session of an app in which a wait expires next after that time, and when."""
        ...

    async def stop(self, key: SessionKey, invocation_id: str) -> None:
        """Requests that the session's holder, or the process that recovers it, stop this invocation.

        Does nothing when the invocation is not open.
        """
        ...

    async def stops(self, holder: str) -> Sequence[tuple[SessionKey, str]]:
        """Returns the invocations to stop in this holder's sessions, as requested by `stop`."""
        ...

    async def introduce(self, lease: Lease, app: str, agents: Collection[str]) -> None:
        """Says which agents of an app the holder answers with, and stores its heartbeat. Idempotent."""
        ...

    async def holders(self, app: str) -> "Sequence[Holder]":
        """Returns the living lease holders of all apps with the number of their leases of this one, by name."""
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds leases, or held some."""

    name: str
    started_at: datetime
    silent_seconds: float
    """The age of its heartbeat; 0 in a database in memory, which has no other process."""
    timeout_seconds: float
    """It counts as dead when its heartbeat is older."""
    sessions: int
    """The number of its leases."""
    agents: frozenset[str] | None = None
    """The agents of the app that it answers with; None if it has not said so."""


class Jobs(Protocol):
    """The open background jobs of a store. Raises StoreError.

    `SessionStore.append`, `begin` and `take` store a job in the transaction of the event that requests it (`actions.jobs`).
    They skip it when its agent has an open job of that kind in the session. A rewind that hides an event up to the job's
    `until` deletes the job. Deleting the session deletes it, too; a fork does not copy it.
    """

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[BackgroundJob]:
        """Claims open jobs of an app, oldest first: those without a living holder, after their pause.

        Costs one read when there are none.
        """
        ...

    async def held(self, holder: str) -> Collection[BackgroundJob]:
        """Returns the jobs of that holder. A missing job was deleted or claimed by another holder."""
        ...

    async def put_back(self, job: BackgroundJob, holder: str, *, pause: float = 0.0, counts: bool = True) -> None:
        """Releases the claim; the job can be claimed again in `pause` seconds. Does nothing when the claim was lost.

        Args:
            counts: Whether `BackgroundJob.attempt` counts this attempt.
        """
        ...

    async def finish(self, job: BackgroundJob, holder: str) -> None:
        """Deletes the job. Does nothing when the claim was lost."""
        ...


class SessionStore(Protocol):
    """Stores sessions and their logs.

    Every method is atomic, and its write is durable when it returns. Values go in and out as copies. A `Session` is a
    token: an append is accepted when its epoch and revision are the stored ones, and refused with StaleWriter otherwise.

    Every method may raise StoreError when the store has a problem; nothing of the call was stored then. After StoreUnavailable
    that is unknown. The same call may then be repeated: what was stored is found by its ids and not stored twice.
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
    def maintenance(self) -> Maintenance: ...

    @property
    def memory(self) -> MemoryStore: ...

    @property
    def signals(self) -> Signals:
        """The signals by which the processes that share this store wake each other."""
        ...

    async def create(self, key: SessionKey, *, state: dict[str, JsonValue] | None = None) -> Session:
        """Creates an empty session; its state is split by scope. Raises SessionExists."""
        ...

    async def open(self, key: SessionKey, *, blank: bool = False) -> Session | None:
        """Returns the session's head and state, or None. Its cost does not depend on the length of the log.

        The first call that finds another holder may wait a few seconds until it is known whether that one is dead.

        Args:
            blank: Return a missing session as an empty one of revision 0, not stored yet; `begin` stores it.
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
        transcript: bool = False,
        max_bytes: int | None = None,
    ) -> list[Event]:
        """Returns events in append order with their sequence numbers; [] for a missing session.

        Args:
            after: Only events with higher numbers.
            before: Only events with lower numbers.
            last: Only this many of the newest events, still oldest first.
            limit: At most this many events, oldest first.
            invocation_id: Only events of this invocation.
            hidden: Also events that a rewind hides.
            transcript: Read only what transcripts show. A selection names only the agent, the method, the confidence and
                the outcome; events may lack steps, usage, state, saved artifacts, positions and finished branches.
            max_bytes: Stop before the event with which the stored events would exceed this size, but return at least one.
        """
        ...

    async def begin(
        self,
        session: Session,
        lease: Lease,
        message: Message,
        events: Sequence[Event],
        *,
        queue_limit: int | None,
        new: bool = False,
        revision: int | None = None,
    ) -> Session:
        """Begins an invocation in one transaction: takes the lease (the epoch increases), appends, and marks the message as
        started.

        Accepts the message if it was not accepted before, stores a blank session, and clears the request of `stop`.
        Repeated by the same holder, it returns the session as it was begun.

        Args:
            queue_limit: The limit of the inbox; None does not queue the message.
            new: The message was not read from the inbox. A message that is stored under its id stays as it is, and the call
            raises SessionBusy.
            revision: Stores a message that was not accepted before only while the session has this revision and its
                inbox is empty. None means any.

        Raises:
            SessionBusy: Another holder has the lease, or messages are in the inbox. Unless `queue_limit` is None, the
                message is then in the inbox, as by `Inbox.accept`.
            StaleWriter: The revision is old, or the message was started before. Nothing is stored.
        """
        ...

    async def take(
        self, session: Session, lease: Lease, events: Sequence[Event], *, release: bool = False, empty_inbox: bool = False
    ) -> Session:
        """Takes the lease of a session that no process holds (the epoch increases), and appends as `append` does, in one
        transaction.

        `release` releases the lease again. With `empty_inbox` the session's inbox has to be empty.

        Raises:
            SessionBusy: Another holder has the lease. Nothing is stored.
            StaleWriter: The revision is old, or the inbox is not empty although it has to be. Nothing is stored.
        """
        ...

    async def append(self, session: Session, events: Sequence[Event], *, release: bool = False) -> Session:
        """Appends events in order, folds the head, and with `release` releases the lease. Skips events that are already
        stored.

        An event with a rewind hides the events that it names; the head is then folded again over the visible ones.

        Raises:
            StaleWriter: Epoch or revision are not the stored ones, unless every event is already stored.
        """
        ...

    async def list(self, app: str, *, user: str | None = None, after: str | None = None, limit: int = 50) -> Page[SessionInfo]:
        """Returns the sessions of an app, or of one of its users, ordered by user and id. Raises CursorInvalid.

        Args:
            after: The cursor of a page.
        """
        ...

    async def delete(self, key: SessionKey, *, revision: int | None = None, actor: str = "") -> bool:
        """Deletes the session with its log, inbox, decisions, labels and jobs. Returns whether there was one.

        It disappears at once; its rows are deleted in short transactions (see `Maintenance.finish_deletions`). Events that
        a fork inherited stay until the fork is deleted, too.

        Args:
            revision: Delete only while the session has this revision and its inbox is empty. None means any; then the
                call is idempotent.
            actor: The deleter, for the audit log.

        Raises:
            UserOnHold: The user has a legal hold.
            SessionMissing: There is no session, and a revision is given.
            StaleWriter: The session does not have the revision. Nothing is deleted.
        """
        ...

    async def delete_user(self, app: str, user: str, *, actor: str = "") -> None:
        """Erases a user: every session, as `delete` does, the user's state, labels and API keys. Idempotent.

        Afterwards no row holds the user's id or words. Audit entries stay without them. After a crash, `finish_deletions`
        continues. Sessions that the user creates after the call began stay. Raises UserOnHold.

        Args:
            actor: The deleter, for the audit log.
        """
        ...

    async def fork(
        self, key: SessionKey, new_id: str, *, before_invocation: str | None = None, revision: int | None = None
    ) -> Session:
        """Stores a new session that begins with the visible log, or with its part before the invocation.

        Leaves out open invocations. The fork shares the events and their numbers with the session; neither sees what the
        other appends or rewinds later. The cost does not depend on the number of events.

        `revision` is as for `delete`. Raises SessionMissing, SessionExists, InvocationMissing, StaleWriter.
        """
        ...

    async def close(self) -> None:
        """Closes connections and threads. Idempotent."""
        ...


class ArtifactInfo(NamedTuple):
    """One version of an artifact."""

    name: str
    version: int
    """Counts from 1."""
    mime_type: str
    size: int
    """In bytes."""


class Artifact(NamedTuple):
    """An artifact version with its data."""

    info: ArtifactInfo
    data: bytes


class ArtifactStore(Protocol):
    """Stores named, versioned blobs of a session. Names that begin with `user:` belong to the user, in all sessions.

    Raises ArtifactName for a name that could escape its folder, ArtifactTooLarge, StoreError.
    """

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Stores a new version, one above the newest. Concurrent saves never get the same version."""
        ...

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        """Returns that version, or the latest; None when there is none."""
        ...

    async def versions(self, key: SessionKey, name: str) -> tuple[ArtifactInfo, ...]:
        """Returns all versions, oldest first; empty when there is none."""
        ...

    async def list(self, key: SessionKey) -> tuple[ArtifactInfo, ...]:
        """Returns the latest version of each artifact of the session and its user, by name."""
        ...

    async def used_bytes(self, app: str, user: str) -> int:
        """Returns the size of all versions of all artifacts of that user."""
        ...

    async def delete(self, key: SessionKey, name: str) -> None:
        """Deletes all versions. Idempotent."""
        ...

    async def delete_session(self, key: SessionKey) -> None:
        """Deletes the session's artifacts, but not the user's. Idempotent."""
        ...

    async def delete_user(self, app: str, user: str) -> None:
        """Deletes all artifacts of that user. Idempotent."""
        ...

    async def close(self) -> None: ...
