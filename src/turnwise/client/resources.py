"""The agents behind a gateway."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from pydantic import JsonValue

from turnwise.client.errors import strange
from turnwise.client.gateway import Gateway
from turnwise.client.request import Asked, at_session, escaped, get, if_revision, post
from turnwise.facts.errors import SessionExists
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.wire.resources import (
    AgentPage,
    AgentShown,
    ArtifactList,
    ArtifactShown,
    DecisionPage,
    DecisionShown,
    EventPage,
    SessionPage,
    SessionRow,
    SessionShown,
    SessionState,
)


class Artifacts:
    """Kept, listed, read and deleted; names that begin with `user:` are the user's in all sessions. All of it raises what the
    gateway tells, and Unreached; SessionMissing, too.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, session: str) -> Sequence[ArtifactShown]:
        """The latest version of each, by name."""
        return (await self._gateway.ask(ArtifactList, get(at_session(session, "artifacts")))).artifacts

    async def versions(self, session: str, name: str) -> Sequence[ArtifactShown]:
        """All versions of one, oldest first; none when there is no such."""
        return (await self._gateway.ask(ArtifactList, get(at_session(session, "artifacts"), name=name))).artifacts

    async def put(self, session: str, name: str, data: bytes, *, mime_type: str = "application/octet-stream") -> ArtifactShown:
        """Keeps a new version. Not tried again when it may have been kept. ArtifactName, ArtifactTooLarge."""
        asked = Asked("PUT", _artifact_path(session, name), content=data, headers={"Content-Type": mime_type})
        return await self._gateway.ask(ArtifactShown, asked, repeatable=False)

    async def get(self, session: str, name: str, *, version: int | None = None) -> Artifact:
        """That version, or the latest, with its bytes. NothingHere."""
        response = await self._gateway.fetch(get(_artifact_path(session, name), version=version))
        which = response.headers.get("x-artifact-version", "")
        if not which.isdecimal():
            raise strange(response)
        data = response.content
        return Artifact(ArtifactInfo(name, int(which), response.headers.get("content-type", ""), len(data)), data)

    async def delete(self, session: str, name: str) -> None:
        """All versions. Idempotent."""
        await self._gateway.fetch(Asked("DELETE", _artifact_path(session, name)))


def _artifact_path(session: str, name: str) -> str:
    return at_session(session, "artifacts", escaped(name))


PAGE = 100


class Page(Protocol):
    """A page, and what is passed as `after` for the following one; None at the end."""

    @property
    def next(self) -> str | int | None: ...


P = TypeVar("P", bound=Page)
R = TypeVar("R")


async def listed(gateway: Gateway, kind: type[P], asked: Asked, rows: Callable[[P], Sequence[R]]) -> AsyncGenerator[R, None]:
    """All rows of all pages, each page asked for when it is wanted."""
    query = {"limit": PAGE, **asked.query}
    while True:
        page = await gateway.ask(kind, asked._replace(query=query))
        for row in rows(page):
            yield row
        if page.next is None:
            return
        query["after"] = page.next


class Agents:
    """Those that this credential reaches. All of it raises what the gateway tells, and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(self) -> AsyncIterator[AgentShown]:
        """All, in the tree's order."""
        return listed(self._gateway, AgentPage, get("/agents"), lambda page: page.agents)

    async def get(self, name: str) -> AgentShown:
        """One of them. NothingHere."""
        return await self._gateway.ask(AgentShown, get(f"/agents/{escaped(name)}"))


class Decisions:
    """Searched, explained and labelled. All of it raises what the gateway tells, and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def search(
        self, *, session: str | None = None, agent: str | None = None, method: str | None = None
    ) -> AsyncIterator[DecisionShown]:
        """All that fit, oldest first: of the user, or of everybody for operators who name no user."""
        asked = get("/decisions", session_id=session, agent=agent, method=method)
        return listed(self._gateway, DecisionPage, asked, lambda page: page.decisions)

    async def explain(self, session: str, sequence: int) -> DecisionShown:
        """The decision that stands in the session's event of that number. InvocationMissing when there is none."""
        return await self._gateway.ask(DecisionShown, get(_decision_path(session, sequence)))

    async def label(self, session: str, sequence: int, agent: str | None) -> None:
        """Says who should have been chosen; None takes that back. For operators. InvocationMissing."""
        await self._gateway.fetch(Asked("PUT", _decision_path(session, sequence) + "/label", body={"agent": agent}))


def _decision_path(session: str, sequence: int) -> str:
    return at_session(session, "decisions", str(int(sequence)))


class Sessions:
    """Made, listed, read, taken back, copied and deleted. All of it raises what the gateway tells, and Unreached."""

    def __init__(self, gateway: Gateway, issuer: Issuer) -> None:
        self._gateway, self._issuer = gateway, issuer

    async def create(self, id: str | None = None, *, state: Mapping[str, JsonValue] | None = None) -> SessionShown:
        """An empty session with that state; without an id it gets one. SessionExists.

        With an id it is not tried again when it may have been made: else nobody could tell it from somebody else's.
        """
        return await self._made("/sessions", id, {"state": dict(state or {})})

    def list(self, *, all_users: bool = False) -> AsyncIterator[SessionRow]:
        """All of the user, or everybody's, for operators: by user and id."""
        asked = get("/sessions", all_users=all_users)
        return listed(self._gateway, SessionPage, asked, lambda page: page.sessions)

    async def get(self, session: str) -> SessionShown:
        """How it stands. SessionMissing."""
        return await self._gateway.ask(SessionShown, get(at_session(session)))

    def events(
        self,
        session: str,
        *,
        after: int = 0,
        before: int | None = None,
        invocation_id: str | None = None,
        hidden: bool = False,
    ) -> AsyncIterator[Event]:
        """Its log, or what of it lies between these numbers, oldest first. hidden: also what was taken back. SessionMissing."""
        asked = get(
            at_session(session, "events"),
            after=after,
            before=before,
            invocation_id=invocation_id,
            hidden=hidden,
        )
        return listed(self._gateway, EventPage, asked, lambda page: page.events)

    async def last_events(self, session: str, count: int) -> tuple[Event, ...]:
        """The newest that many (up to 200), oldest first. SessionMissing."""
        page = await self._gateway.ask(EventPage, get(at_session(session, "events"), last=count))
        return tuple(page.events)

    async def state(self, session: str) -> SessionState:
        """What agents keep in it, and share between the user's sessions. SessionMissing."""
        return await self._gateway.ask(SessionState, get(at_session(session, "state")))

    async def write_state(self, session: str, state: Mapping[str, JsonValue], *, revision: int | None = None) -> SessionState:
        """Writes these keys of the state; None removes one. Idempotent. SessionMissing, SessionBusy.

        revision: which the session must have, else PreconditionFailed. Then it is not tried again when it may have been done:
        it would find its own write.
        """
        asked = if_revision(Asked("PATCH", at_session(session, "state"), body={"state": dict(state)}), revision)
        return await self._gateway.ask(SessionState, asked, repeatable=revision is None)

    async def rewind(self, session: str, invocation_id: str, *, revision: int | None = None) -> SessionShown:
        """Back to before that invocation. Not tried again when it may have been done. InvocationMissing, SessionBusy.

        revision: as of `write_state`.
        """
        asked = if_revision(post(at_session(session, "rewind"), {"invocation_id": invocation_id}), revision)
        return await self._gateway.ask(SessionShown, asked, repeatable=False)

    async def fork(self, session: str, id: str | None = None, *, before_invocation_id: str | None = None) -> SessionShown:
        """A copy, of what came before that invocation, or of all. As `create` for the id. SessionMissing, InvocationMissing."""
        return await self._made(at_session(session, "fork"), id, {"before_invocation_id": before_invocation_id})

    async def delete(self, session: str, *, revision: int | None = None) -> None:
        """All that is kept of it. Idempotent. SessionBusy. revision: as of `write_state`."""
        asked = if_revision(Asked("DELETE", at_session(session)), revision)
        await self._gateway.fetch(asked, repeatable=revision is None)

    async def delete_user(self, user: str) -> None:
        """All that is kept of that user. Idempotent. SessionBusy."""
        await self._gateway.fetch(Asked("DELETE", f"/users/{escaped(user)}"))

    async def _made(self, path: str, id: str | None, body: Mapping[str, JsonValue]) -> SessionShown:
        if id is not None:
            return await self._gateway.ask(SessionShown, post(path, {"id": id, **body}), repeatable=False)
        own = self._issuer.new_id("session")
        try:
            return await self._gateway.ask(SessionShown, post(path, {"id": own, **body}))
        except SessionExists:
            return await self.get(own)  # nobody else knows that id: it was made by a request whose answer was lost
