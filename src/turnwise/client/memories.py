"""The client's memory: what is remembered of users."""

from collections.abc import AsyncIterator, Sequence

from turnwise.client.connection import Gateway
from turnwise.client.request import ApiRequest, escape_path, get, post
from turnwise.client.resources import paginate
from turnwise.facts.ids import Issuer
from turnwise.facts.memory import Entity, MemoryKind, Span, Speaker
from turnwise.wire.memories import MOST_IDS, MemoriesForgotten, MemoriesFound, MemoryFound, MemoryPage, MemoryShown


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
        return paginate(self._gateway, MemoryPage, get(_path(user), **filters), lambda page: page.memories)

    async def get(self, user: str, id: str) -> MemoryShown:
        """Returns an entry. Raises NothingHere."""
        return await self._gateway.ask(MemoryShown, get(f"{_path(user)}/{escape_path(id)}"))

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
        return (await self._gateway.ask(MemoriesFound, post(f"{_path(user)}/search", body))).found

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
        return await self._gateway.ask(MemoryShown, post(_path(user), given))

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
        asked = ApiRequest("DELETE", _path(user), which)
        return (await self._gateway.ask(MemoriesForgotten, asked)).forgotten


def _path(user: str) -> str:
    return f"/users/{escape_path(user)}/memories"
