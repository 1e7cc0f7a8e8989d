"""A gateway's sessions."""

from collections.abc import AsyncIterator, Mapping

from pydantic import JsonValue

from turnwise.client.asked import Asked, at_session, escaped, get, if_revision, post
from turnwise.client.gateway import Gateway
from turnwise.client.listing import listed
from turnwise.facts.errors import SessionExists
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer
from turnwise.wire.kept import EventPage, SessionPage, SessionRow, SessionShown, SessionState


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
