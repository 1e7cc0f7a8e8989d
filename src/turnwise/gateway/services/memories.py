"""Reads, adds and forgets the memory of a user."""

from collections.abc import Collection, Sequence

from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.facts.ids import Issuer
from turnwise.facts.memory import Entity, MemoryEntry, MemoryKind, Recalled, Span, Speaker, new_entry
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.decisions import Page
from turnwise.ports.memory import MemoryFilter, MemoryReader, MemoryStore
from turnwise.runner import Runner


class Memories:
    """The memory of a user, with the caller's rights. All methods raise Forbidden and StoreError."""

    def __init__(self, runner: Runner, scope: SessionScope, issuer: Issuer) -> None:
        self._runner, self._scope, self._issuer = runner, scope, issuer

    async def page(self, filter: MemoryFilter, *, superseded: bool, after: str | None, limit: int) -> Page[MemoryEntry]:
        """Returns a page of entries, newest first. Raises CursorInvalid."""
        user = self._scope.user("memories:read")
        return await self._store.recent(
            self._app, user, reader=self._reader, filter=filter, superseded=superseded, after=after, limit=limit
        )

    async def search(self, query: str, filter: MemoryFilter, *, limit: int) -> Sequence[Recalled]:
        """Returns the entries that fit the query best, best first."""
        user = self._scope.user("memories:read")
        vector = await self._runner.memory.vector(query)
        return await self._store.search(self._app, user, query, vector=vector, reader=self._reader, filter=filter, limit=limit)

    async def get(self, id: str) -> MemoryEntry:
        """Returns an entry. Raises NothingHere: it does not exist, or the caller may not see it."""
        user = self._scope.user("memories:read")
        entry = await self._store.get(self._app, user, id, reader=self._reader)
        if entry is None:
            raise NothingHere("There is no such entry.", fix="List the entries for their ids.")
        return entry

    async def add(
        self,
        text: str,
        *,
        id: str | None = None,
        kind: MemoryKind = "fact",
        span: Span = "long",
        session: str | None = None,
        entity: Entity | None = None,
        supersedes: Sequence[str] = (),
    ) -> MemoryEntry:
        """Adds an entry and returns it. The same id again changes nothing.

        The caller is on record as its speaker: a user for what a user adds, an operator for all others.

        Raises:
            MemoryInvalid: The text is empty or too long.
            SessionMissing: There is no such session.
            StorageUsed: The user has as much as one user may have.
        """
        user, caller = self._scope.user("memories:write"), self._scope.caller
        speaker: Speaker = "user" if caller.role == "user" else "operator"
        entry = new_entry(
            id=self._issuer.new_id("memory") if id is None else id,
            kind=kind,
            text=text,
            session=session,
            span=span,
            said_by=speaker,
            entity=entity,
            supersedes=tuple(supersedes),
            created_at=self._issuer.now(),
        )
        return (await self._runner.memory.add(user, [entry]))[0]

    async def forget(self, *, ids: Collection[str] | None = None, session: str | None = None) -> int:
        """Deletes entries, those of a session, or all of the user, and returns how many.

        Raises:
            RequestInvalid: Both entries and a session are named.
            UserOnHold: The user has a legal hold.
        """
        user = self._scope.user("memories:write")
        if ids is not None and session is not None:
            fix = "Name one of them; nothing was deleted."
            raise RequestInvalid("Both entries and a session are named.", fix=fix, where=("query", "session_id"))
        if ids is not None:
            seen = [id_ for id_ in ids if await self._store.get(self._app, user, id_, reader=self._reader) is not None]
            return await self._store.forget(self._app, user, ids=seen) if seen else 0
        return await self._store.forget(self._app, user, session=session)

    async def add_session(self, session: str) -> int:
        """Remembers the messages of a session. Raises SessionMissing."""
        key = self._scope.session("memories:write", session)
        self._scope.session("sessions:read", session)
        return await self._runner.memory.add_session(key)

    @property
    def _app(self) -> str:
        return self._runner.app

    @property
    def _store(self) -> MemoryStore:
        return self._runner.memory.store

    @property
    def _reader(self) -> MemoryReader:
        """Entries of agents that the caller's roles do not permit stay unseen."""
        roles = self._scope.caller.agent_roles
        return MemoryReader(roles=None if roles is None else frozenset(roles))
