"""The client's resources: artifacts, agents, decisions, sessions and memory."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from pydantic import JsonValue

from turnwise.client.connection import ApiRequest, Gateway, escape_path, get, post, session_path, with_revision
from turnwise.client.errors import not_a_gateway
from turnwise.facts.errors import SessionExists
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer
from turnwise.facts.memory import Entity, MemoryKind, Span, Speaker
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.wire.memories import MOST_IDS, MemoriesForgotten, MemoriesFound, MemoryFound, MemoryPage, MemoryShown
from turnwise.wire.resources import (
    AgentPage,
    AgentShown,
    ArtifactList,
    ArtifactShown,
    DecisionCountsShown,
    DecisionPage,
    DecisionShown,
    EventPage,
    RecentSessionPage,
    RecentSessionShown,
    SessionPage,
    SessionRow,
    SessionShown,
    SessionState,
)


class Artifacts:
    """Stores, lists, reads and deletes artifacts. A name that begins with `user:` is shared by the user's sessions.

    All methods raise the gateway's errors, among them SessionMissing, and Unreached.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, session: str) -> Sequence[ArtifactShown]:
        """Returns the latest version of each artifact, sorted by name."""
        return (await self._gateway.ask(ArtifactList, get(session_path(session, "artifacts")))).artifacts

    async def versions(self, session: str, name: str) -> Sequence[ArtifactShown]:
        """Returns all versions of an artifact, oldest first; empty if there is no such artifact."""
        return (await self._gateway.ask(ArtifactList, get(session_path(session, "artifacts"), name=name))).artifacts

    async def put(self, session: str, name: str, data: bytes, *, mime_type: str = "application/octet-stream") -> ArtifactShown:
        """Stores a new version. Not retried if it may have been stored. Raises ArtifactName and ArtifactTooLarge."""
        asked = ApiRequest("PUT", _artifact_path(session, name), content=data, headers={"Content-Type": mime_type})
        return await self._gateway.ask(ArtifactShown, asked, repeatable=False)

    async def get(self, session: str, name: str, *, version: int | None = None) -> Artifact:
        """Returns one version with its bytes; the latest if `version` is None. Raises NothingHere."""
        response = await self._gateway.fetch(get(_artifact_path(session, name), version=version))
        which = response.headers.get("x-artifact-version", "")
        if not which.isdecimal():
            raise not_a_gateway(response)
        data = response.content
        return Artifact(ArtifactInfo(name, int(which), response.headers.get("content-type", ""), len(data)), data)

    async def delete(self, session: str, name: str) -> None:
        """Deletes all versions. Idempotent."""
        await self._gateway.fetch(ApiRequest("DELETE", _artifact_path(session, name)))


def _artifact_path(session: str, name: str) -> str:
    return session_path(session, "artifacts", escape_path(name))


PAGE = 100


class Page(Protocol):
    """A page of a list. `next` is the `after` of the next page; None on the last page."""

    @property
    def next(self) -> str | int | None: ...


P = TypeVar("P", bound=Page)
R = TypeVar("R")


async def paginate(
    gateway: Gateway, kind: type[P], asked: ApiRequest, rows: Callable[[P], Sequence[R]]
) -> AsyncGenerator[R, None]:
    """Yields the rows of all pages. Each page is requested when it is needed."""
    query = {"limit": PAGE, **asked.query}
    while True:
        page = await gateway.ask(kind, asked._replace(query=query))
        for row in rows(page):
            yield row
        if page.next is None:
            return
        query["after"] = page.next


class Agents:
    """The agents that the credential may use. All methods raise the gateway's errors and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(self) -> AsyncIterator[AgentShown]:
        """Yields all agents in the tree's order."""
        return paginate(self._gateway, AgentPage, get("/agents"), lambda page: page.agents)

    async def get(self, name: str) -> AgentShown:
        """Returns the agent. Raises NothingHere."""
        return await self._gateway.ask(AgentShown, get(f"/agents/{escape_path(name)}"))


class Decisions:
    """Searches, explains and labels selection decisions. All methods raise the gateway's errors and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def search(
        self,
        *,
        session: str | None = None,
        agent: str | None = None,
        method: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        min_confidence: float | None = None,
        max_confidence: float | None = None,
        outcome: Literal["chosen", "clarify"] | None = None,
        label: str | None = None,
        labelled: bool | None = None,
        contradicted: bool = False,
        policy: str | None = None,
        words: str | None = None,
    ) -> AsyncIterator[DecisionShown]:
        """Yields the matching decisions of the user, newest first. Operators who name neither a user nor a session get
        those of all users.

        Args:
            session: Only decisions of this session.
            agent: Only decisions for this agent.
            method: Only decisions by this method.
            since: Only decisions made at this time or later.
            until: Only decisions made before this time.
            min_confidence: The lowest confidence.
            max_confidence: The highest confidence.
            outcome: `clarify` for decisions that asked the user to choose, `chosen` for the others.
            label: Only decisions with this label; for operators, like the next two.
            labelled: True for labelled decisions, False for unlabelled ones.
            contradicted: Only decisions whose label is another agent than the selected one.
            policy: Only decisions by this policy: its fingerprint, or its name.
            words: Only decisions for messages with all these words.
        """
        asked = get(
            "/decisions",
            session_id=session,
            agent=agent,
            method=method,
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
            min_confidence=min_confidence,
            max_confidence=max_confidence,
            outcome=outcome,
            label=label,
            labelled=labelled,
            contradicted=contradicted or None,
            policy=policy,
            words=words,
        )
        return paginate(self._gateway, DecisionPage, asked, lambda page: page.decisions)

    async def count(
        self,
        *,
        agent: str | None = None,
        method: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        labelled: bool | None = None,
        policy: str | None = None,
    ) -> DecisionCountsShown:
        """Returns the numbers of the newest decisions by agent, method, outcome, confidence, policy and time. The filters and
        the users are those of `search`.
        """
        asked = get(
            "/decision-counts",
            agent=agent,
            method=method,
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
            labelled=labelled,
            policy=policy,
        )
        return await self._gateway.ask(DecisionCountsShown, asked)

    async def label_all(
        self, decisions: Sequence[DecisionShown], agent: str | None, *, note: str = "", unsure: bool = False
    ) -> None:
        """Gives at most 200 decisions the same label; None removes the labels of all operators. For operators."""
        places = [{"user": each.user, "session_id": each.session_id, "sequence": each.sequence} for each in decisions]
        body = {"decisions": places, "agent": agent, "note": note, "unsure": unsure}
        await self._gateway.fetch(ApiRequest("POST", "/decision-labels", body=body))

    async def explain(self, session: str, sequence: int) -> DecisionShown:
        """Returns the decision in the session's event with this sequence number. Raises InvocationMissing."""
        return await self._gateway.ask(DecisionShown, get(_decision_path(session, sequence)))

    async def label(self, session: str, sequence: int, agent: str | None) -> None:
        """Stores the agent that should have been chosen; None removes the label. For operators. Raises InvocationMissing."""
        await self._gateway.fetch(ApiRequest("PUT", _decision_path(session, sequence) + "/label", body={"agent": agent}))

    async def rate(
        self, session: str, sequence: int, rating: Literal["up", "down"] | None, *, agent: str | None = None
    ) -> None:
        """Stores whether the right agent answered in an own session; None takes the rating back. Raises InvocationMissing.

        Args:
            session: The session.
            sequence: The number of the event that holds the decision.
            rating: `up` or `down`.
            agent: The agent that should have answered, with `down`.
        """
        body = {"rating": rating, "agent": agent}
        await self._gateway.fetch(ApiRequest("POST", _decision_path(session, sequence) + "/feedback", body=body))


def _decision_path(session: str, sequence: int) -> str:
    return session_path(session, "decisions", str(int(sequence)))


class Sessions:
    """Creates, lists, reads, rewinds, forks and deletes sessions. All methods raise the gateway's errors and Unreached."""

    def __init__(self, gateway: Gateway, issuer: Issuer) -> None:
        self._gateway, self._issuer = gateway, issuer

    async def create(self, id: str | None = None, *, state: Mapping[str, JsonValue] | None = None) -> SessionShown:
        """Creates an empty session with this state; generates an id if it is None.

        With an id, the request is not retried if the session may have been created: it could be somebody else's.
        Raises SessionExists.
        """
        return await self._create("/sessions", id, {"state": dict(state or {})})

    def list(self, *, all_users: bool = False) -> AsyncIterator[SessionRow]:
        """Yields the sessions of the user, sorted by user and id; of all users with `all_users`, for operators."""
        asked = get("/sessions", all_users=all_users)
        return paginate(self._gateway, SessionPage, asked, lambda page: page.sessions)

    def recent(
        self, *, all_users: bool = False, words: str | None = None, state: str | None = None
    ) -> AsyncIterator[RecentSessionShown]:
        """Yields sessions by their newest decision, the newest first.

        Args:
            all_users: Lists the sessions of all users; for operators.
            words: Only sessions in which a message has all these words. A session may then come several times.
            state: Only sessions whose newest invocation has this state, such as `waiting`.
        """
        asked = get("/recent-sessions", all_users=all_users or None, words=words, state=state)
        return paginate(self._gateway, RecentSessionPage, asked, lambda page: page.sessions)

    async def get(self, session: str) -> SessionShown:
        """Returns the session's status. Raises SessionMissing."""
        return await self._gateway.ask(SessionShown, get(session_path(session)))

    def events(
        self,
        session: str,
        *,
        after: int = 0,
        before: int | None = None,
        invocation_id: str | None = None,
        hidden: bool = False,
    ) -> AsyncIterator[Event]:
        """Yields the session's events, oldest first; none before its first message.

        Args:
            session: The session's id.
            after: Only events with a higher sequence number.
            before: Only events with a lower sequence number; None for no limit.
            invocation_id: Only events of this invocation.
            hidden: Whether to include rewound events.
        """
        asked = get(
            session_path(session, "events"),
            after=after,
            before=before,
            invocation_id=invocation_id,
            hidden=hidden,
            blobs=True,
        )
        return paginate(self._gateway, EventPage, asked, lambda page: page.events)

    async def last_events(self, session: str, count: int) -> tuple[Event, ...]:
        """Returns the newest `count` events (at most 200, and 1 MiB), oldest first."""
        page = await self._gateway.ask(EventPage, get(session_path(session, "events"), last=count, blobs=True))
        return tuple(page.events)

    async def state(self, session: str) -> SessionState:
        """Returns the session's state, merged with the state that the user's sessions share. Raises SessionMissing."""
        return await self._gateway.ask(SessionState, get(session_path(session, "state")))

    async def write_state(self, session: str, state: Mapping[str, JsonValue], *, revision: int | None = None) -> SessionState:
        """Writes keys of the state; None removes a key. Idempotent.

        Args:
            session: The session's id.
            state: The keys to write.
            revision: The revision that the session must have. With a revision, the request is not retried if it may
                have succeeded, because its own write would fail the condition.

        Raises:
            SessionMissing: There is no such session.
            SessionBusy: The session is answering a message.
            PreconditionFailed: The session has another revision.
        """
        asked = with_revision(ApiRequest("PATCH", session_path(session, "state"), body={"state": dict(state)}), revision)
        return await self._gateway.ask(SessionState, asked, repeatable=revision is None)

    async def rewind(self, session: str, invocation_id: str, *, revision: int | None = None) -> SessionShown:
        """Rewinds the session to before the invocation. Not retried if it may have succeeded. `revision` is as for
        `write_state`.

        Raises:
            InvocationMissing: There is no such invocation.
            SessionBusy: The session is answering a message.
        """
        asked = with_revision(post(session_path(session, "rewind"), {"invocation_id": invocation_id}), revision)
        return await self._gateway.ask(SessionShown, asked, repeatable=False)

    async def fork(self, session: str, id: str | None = None, *, before_invocation_id: str | None = None) -> SessionShown:
        """Copies the session, or its events before an invocation. `id` is as for `create`.

        Raises:
            SessionMissing: There is no such session.
            InvocationMissing: There is no such invocation.
        """
        return await self._create(session_path(session, "fork"), id, {"before_invocation_id": before_invocation_id})

    async def delete(self, session: str, *, revision: int | None = None) -> None:
        """Deletes the session and all its data. Idempotent. Raises SessionBusy. `revision` is as for `write_state`."""
        asked = with_revision(ApiRequest("DELETE", session_path(session)), revision)
        await self._gateway.fetch(asked, repeatable=revision is None)

    async def delete_user(self, user: str) -> None:
        """Deletes all data of the user. Idempotent. Raises SessionBusy."""
        await self._gateway.fetch(ApiRequest("DELETE", f"/users/{escape_path(user)}"))

    async def _create(self, path: str, id: str | None, body: Mapping[str, JsonValue]) -> SessionShown:
        """Creates a session. Without an id of the caller, a lost response is harmless: the request is repeated."""
        if id is not None:
            return await self._gateway.ask(SessionShown, post(path, {"id": id, **body}), repeatable=False)
        own = self._issuer.new_id("session")
        try:
            return await self._gateway.ask(SessionShown, post(path, {"id": own, **body}))
        except SessionExists:
            return await self.get(own)  # only this call knows the id, so an earlier attempt created the session


class Memories:
    """Lists, searches, adds, forgets and exports what is remembered of a user.

    All methods raise the gateway's errors and Unreached.
    """

    def __init__(self, gateway: Gateway, issuer: Issuer) -> None:
        self._gateway, self._issuer = gateway, issuer

    def list(
        self,
        user: str,
        *,
        kind: MemoryKind | None = None,
        span: Span | None = None,
        said_by: Speaker | None = None,
        session: str | None = None,
        superseded: bool = False,
    ) -> AsyncIterator[MemoryShown]:
        """Yields the entries of a user, newest first. None matches everything.

        Args:
            user: The user.
            kind: Only entries of this kind.
            span: Only entries of this span.
            said_by: Only what these said.
            session: Only entries that belong to this session, or came from it.
            superseded: Also entries that others replace.
        """
        filters = {"kind": kind, "span": span, "said_by": said_by, "session_id": session, "superseded": superseded or None}
        return paginate(self._gateway, MemoryPage, get(_memory_path(user), **filters), lambda page: page.memories)

    async def get(self, user: str, id: str) -> MemoryShown:
        """Returns an entry. Raises NothingHere."""
        return await self._gateway.ask(MemoryShown, get(f"{_memory_path(user)}/{escape_path(id)}"))

    async def search(
        self,
        user: str,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[MemoryKind] | None = None,
        spans: Sequence[Span] | None = None,
        said_by: Sequence[Speaker] | None = None,
        session: str | None = None,
    ) -> Sequence[MemoryFound]:
        """Returns up to 100 entries that fit the query best, best first."""
        filters = {"kinds": kinds, "spans": spans, "said_by": said_by, "session_id": session}
        body = {"query": query, "limit": limit} | {name: value for name, value in filters.items() if value is not None}
        return (await self._gateway.ask(MemoriesFound, post(f"{_memory_path(user)}/search", body))).found

    async def add(
        self,
        user: str,
        text: str,
        *,
        id: str | None = None,
        kind: MemoryKind = "fact",
        span: Span = "long",
        session: str | None = None,
        entity: Entity | None = None,
        supersedes: Sequence[str] = (),
    ) -> MemoryShown:
        """Adds an entry and returns it; generates an id if it is None. The same id again changes nothing.

        Raises MemoryInvalid, SessionMissing, StorageUsed.
        """
        id = self._issuer.new_id("memory") if id is None else id
        body = {"text": text, "id": id, "kind": kind, "span": span, "session_id": session, "entity": entity}
        given = {name: value for name, value in body.items() if value is not None} | {"supersedes": [*supersedes]}
        return await self._gateway.ask(MemoryShown, post(_memory_path(user), given))

    async def forget(self, user: str, *ids: str, session: str | None = None, everything: bool = False) -> int:
        """Deletes these entries, those of a session, or all, and returns how many. Raises UserOnHold.

        Entries that they replace are deleted, too. Idempotent.

        Raises:
            ValueError: It is not said what to forget, or more than one thing is.
        """
        if sum((bool(ids), session is not None, everything)) != 1:
            raise ValueError("Name what to forget: ids, session=…, or everything=True.")
        if not ids:
            return await self._forget(user, session_id=session)
        parts = [ids[at : at + MOST_IDS] for at in range(0, len(ids), MOST_IDS)]
        return sum([await self._forget(user, id=list(part)) for part in parts])

    def export(self, user: str) -> AsyncIterator[MemoryShown]:
        """Yields all entries of a user, newest first, with those that others replace."""
        return self.list(user, superseded=True)

    async def _forget(self, user: str, **which: object) -> int:
        asked = ApiRequest("DELETE", _memory_path(user), which)
        return (await self._gateway.ask(MemoriesForgotten, asked)).forgotten


def _memory_path(user: str) -> str:
    return f"/users/{escape_path(user)}/memories"
