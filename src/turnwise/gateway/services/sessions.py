"""Creates, lists, reads, rewinds, forks and deletes sessions. Pages of events leave out large blobs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

from pydantic import JsonValue

from turnwise.facts.content import BlobPart, Part
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.session_admission import Expected, Prices, SessionScope, as_precondition, check_state
from turnwise.ports.decisions import Page, RecentSession
from turnwise.ports.stores import PAGE_BYTES, SessionInfo
from turnwise.runner import PastExchange, Runner
from turnwise.runner.message.open_invocations import Pending, pending_reasons


class Window(NamedTuple):
    """The events to read. All other fields are as for `SessionStore.events`."""

    after: int = 0
    before: int | None = None
    last: int | None = None
    """Reads this many of the newest events, instead of the oldest `limit`."""
    limit: int = 50
    invocation_id: str | None = None
    hidden: bool = False


class Events(NamedTuple):
    """One page of events."""

    events: tuple[Event, ...]
    next: int | None
    """The sequence number to continue after; None on the last page."""


class Sessions:
    """Manages sessions with the caller's rights.

    All methods raise Forbidden and the runner's
    errors.
    """

    def __init__(self, runner: Runner, scope: SessionScope, prices: Prices, issuer: Issuer) -> None:
        self._runner, self._scope, self._prices, self._issuer = runner, scope, prices, issuer

    async def create(
        self,
        session: str | None,
        state: Mapping[str, JsonValue],
        *,
        past: Sequence[PastExchange] = (),
        author: str | None = None,
    ) -> Session:
        """Creates a session.

        Args:
            session: The session's id; None to generate one.
            state: The initial state, see `check_state`.
            past: Exchanges to import, as `Runner.sessions.bring` does. If the import fails, no session remains.
            author: The agent that gave the imported answers.

        Raises:
            SessionExists: There is a session with this id.
        """
        key = self._scope.session("sessions:write", self._id(session))
        check_state(self._scope.caller, state, self._runner.config.limits)
        if not past:
            return await self._runner.sessions.create(key, state=dict(state))
        self._scope.session("messages:write", key.id)
        await self._prices.imports(key, len(past))
        await self._runner.sessions.create(key, state=dict(state))
        try:
            return await self._runner.sessions.bring(key, past, author=author)
        except TurnwiseError:
            await self._runner.sessions.delete(key, actor=self._scope.caller.id)
            raise

    async def page(self, *, everybody: bool, after: str | None, limit: int) -> Page[SessionInfo]:
        """Returns one page of sessions of a user, or of all users, sorted by user and id. Raises CursorInvalid."""
        named = self._scope.users("sessions:read", everybody=everybody)
        return await self._runner.store.list(self._runner.app, user=named, after=after, limit=limit)

    async def recent(
        self, *, everybody: bool, words: str, state: str | None, after: str | None, limit: int
    ) -> Page[RecentSession]:
        """Returns one page of sessions of a user, or of all users, the most recently decided first. Raises CursorInvalid."""
        named = self._scope.users("sessions:read", everybody=everybody)
        return await self._runner.store.decisions.recent_sessions(
            self._runner.app, user=named, words=words, state=state, after=after, limit=limit
        )

    async def get(self, session: str) -> Session:
        """Returns the session with its head and state. Raises SessionMissing."""
        return await self._runner.sessions.get(self._scope.session("sessions:read", session))

    async def pending(self, session: Session) -> tuple[Pending, ...]:
        """Returns why a session that was read waits."""
        runner = self._runner
        return await pending_reasons(runner.store, runner.sets.current, session, self._issuer.now())

    async def events(self, session: str, window: Window, *, blobs: bool = False) -> Events:
        """Returns one page of the session's events, oldest first; an empty one before its first message.

        It ends at `PAGE_BYTES`, but has at least one event.

        Args:
            blobs: Whether to include the data of large blobs. Otherwise the page holds their sizes.
        """
        page = await self._page(session, window)
        return page if blobs else page._replace(events=tuple(map(without_large_blobs, page.events)))

    async def _page(self, session: str, window: Window) -> Events:
        """Reads a page of events, at most PAGE_BYTES, and where the next page begins; None after the last one."""
        key = self._scope.session("sessions:read", session)
        asked = window._asdict()
        if window.last is not None:
            found = await self._runner.sessions.events(key, **asked | {"limit": None}, max_bytes=PAGE_BYTES)
            return Events(tuple(found), None)
        shown = await self._runner.sessions.events(key, **asked, max_bytes=PAGE_BYTES)
        if not shown:
            return Events((), None)
        rest = asked | {"after": shown[-1].sequence, "limit": 1}
        more = await self._runner.sessions.events(key, **rest, max_bytes=1)
        return Events(tuple(shown), shown[-1].sequence if more else None)

    async def rewind(self, session: str, invocation_id: str, expected: Expected | None = None) -> Session:
        """Rewinds the session as `Runner.sessions.rewind` does.

        Raises:
            SessionMissing, InvocationMissing, SessionBusy: As for the runner.
            PreconditionFailed: The session does not have an expected revision.
        """
        key = self._scope.session("sessions:write", session)
        await self._prices.change(key)
        revision = await self._revision(key, expected)
        async with as_precondition(expected, self._runner.store, key):
            return await self._runner.sessions.rewind(key, invocation_id, revision=revision)

    async def fork(
        self,
        session: str,
        new: str | None,
        before_invocation: str | None,
        expected: Expected | None = None,
    ) -> Session:
        """Forks the session as `Runner.sessions.fork` does.

        Raises:
            SessionMissing, SessionExists, InvocationMissing: As for the runner.
            PreconditionFailed: The session does not have an expected revision.
        """
        key = self._scope.session("sessions:write", session)
        await self._prices.fork(key)
        revision = await self._revision(key, expected)
        copy = self._scope.session("sessions:write", self._id(new))
        async with as_precondition(expected, self._runner.store, key):
            return await self._runner.sessions.fork(key, copy.id, before_invocation=before_invocation, revision=revision)

    async def write_state(
        self,
        session: str,
        delta: Mapping[str, JsonValue],
        expected: Expected | None = None,
    ) -> Session:
        """Writes keys of the state as `Runner.sessions.write_state` does, after `check_state`.

        Raises:
            SessionMissing, SessionBusy: As for the runner.
            PreconditionFailed: The session does not have an expected revision.
        """
        key = self._scope.session("sessions:write", session)
        check_state(self._scope.caller, delta, self._runner.config.limits)
        revision = await self._revision(key, expected)
        async with as_precondition(expected, self._runner.store, key):
            return await self._runner.sessions.write_state(key, delta, revision=revision)

    async def delete(self, session: str, expected: Expected | None = None) -> None:
        """Deletes the session and all its data. Idempotent. Raises SessionBusy, UserOnHold and PreconditionFailed."""
        key, actor = self._scope.session("sessions:write", session), self._scope.caller.id
        await self._prices.change(key)
        if expected is None:
            await self._runner.sessions.delete(key, actor=actor)
            return
        revision = expected.check(await self._runner.store.open(key))
        async with as_precondition(expected, self._runner.store, key):
            if not await self._runner.sessions.delete(key, revision=revision, actor=actor):
                expected.check(None)

    async def delete_user(self) -> None:
        """Erases the user. Idempotent. Raises SessionBusy and UserOnHold."""
        user = self._scope.user("sessions:write")
        await self._prices.delete_user(user)
        await self._runner.sessions.delete_user(user, actor=self._scope.caller.id)

    async def _revision(self, key: SessionKey, expected: Expected | None) -> int | None:
        """Returns the revision that the session must still have when it is written; None if any."""
        return None if expected is None else expected.check(await self._runner.sessions.get(key))

    def _id(self, given: str | None) -> str:
        return self._issuer.new_id("session") if given is None else given


LARGE_BLOB_BYTES = 64 * 1024
"""Pages hold larger blobs without their data."""


def without_large_blobs(event: Event) -> Event:
    """Returns the event with the sizes of large blobs in place of their data."""
    if event.content is None or not any(_is_large(part) for part in event.content.parts):
        return event
    return event.with_content(event.content.with_parts(_without_data(part) for part in event.content.parts))


def left_out_bytes(part: BlobPart) -> int | None:
    """Returns the size of a blob without its data; None for any other blob."""
    size = (part.model_extra or {}).get("size")
    return size if isinstance(size, int) and not part.data else None


def _is_large(part: Part) -> TypeGuard[BlobPart]:
    return isinstance(part, BlobPart) and len(part.data) > LARGE_BLOB_BYTES


def _without_data(part: Part) -> Part:
    if not _is_large(part):
        return part
    return BlobPart.model_construct(**(dict(part) | {"data": b"", "size": len(part.data)}))
