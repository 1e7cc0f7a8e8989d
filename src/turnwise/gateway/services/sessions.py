"""Sessions: made, listed, read, taken back, copied and deleted."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, RequestTooLarge, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.limits import Limits
from turnwise.facts.sessions import APP_PREFIX, Session, SessionKey
from turnwise.gateway.services.revisions import Expected, as_precondition
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.ports.stores import Page, SessionInfo
from turnwise.runner import PastExchange, Runner
from turnwise.runner.admission import check_delta


class Window(NamedTuple):
    """Which events are read: `last` = the newest that many, else the oldest `limit`. The rest as of `SessionStore.events`."""

    after: int = 0
    before: int | None = None
    last: int | None = None
    limit: int = 50
    invocation_id: str | None = None
    hidden: bool = False


class Events(NamedTuple):
    """next: the number after which there are more; None when these are the last."""

    events: tuple[Event, ...]
    next: int | None


class Sessions:
    """What callers can do with sessions. All of it raises Forbidden, and what the runner raises.

    user: whom the request names; None = the caller.
    """

    def __init__(self, runner: Runner, whose: SessionScope, issuer: Issuer | None = None) -> None:
        self._runner, self._whose, self._issuer = runner, whose, issuer or SystemIssuer()

    async def create(
        self,
        caller: Caller,
        session: str | None,
        state: Mapping[str, JsonValue],
        user: str | None = None,
        *,
        past: Sequence[PastExchange] = (),
        author: str | None = None,
    ) -> Session:
        """A session with that state; without an id it gets one. past: what was said elsewhere, by `author`, as of
        `Runner.sessions.bring`; there is no session if that cannot be had. As of `check_state`; SessionExists.
        """
        key = self._whose.session(caller, "sessions:write", self._id(session), user)
        check_state(caller, state, self._runner.config.limits)
        if not past:
            return await self._runner.sessions.create(key, state=dict(state))
        self._whose.session(caller, "messages:write", key.id, user)
        await self._runner.sessions.create(key, state=dict(state))
        try:
            return await self._runner.sessions.bring(key, past, author=author)
        except TurnwiseError:
            await self._runner.sessions.delete(key)
            raise

    async def page(
        self, caller: Caller, *, user: str | None, everybody: bool, after: str | None, limit: int
    ) -> Page[SessionInfo]:
        """The sessions of one user, or of all, by user and id. CursorInvalid."""
        named = self._whose.users(caller, "sessions:read", user, everybody=everybody)
        return await self._runner.store.list(self._runner.app, user=named, after=after, limit=limit)

    async def get(self, caller: Caller, session: str, user: str | None = None) -> Session:
        """The session's head and state. SessionMissing."""
        return await self._runner.sessions.get(self._whose.session(caller, "sessions:read", session, user))

    async def events(self, caller: Caller, session: str, window: Window, user: str | None = None) -> Events:
        """A page of its events, oldest first. SessionMissing."""
        key = self._whose.session(caller, "sessions:read", session, user)
        await self._runner.sessions.get(key)
        asked = window._asdict()
        if window.last is not None:
            found = await self._runner.sessions.events(key, **asked | {"limit": None})
            return Events(tuple(found), None)
        found = await self._runner.sessions.events(key, **asked | {"limit": window.limit + 1})
        shown = tuple(found[: window.limit])
        return Events(shown, shown[-1].sequence if len(found) > window.limit else None)

    async def rewind(
        self, caller: Caller, session: str, invocation_id: str, user: str | None = None, expected: Expected | None = None
    ) -> Session:
        """`Runner.sessions.rewind`. SessionMissing, InvocationMissing, SessionBusy, PreconditionFailed."""
        key = self._whose.session(caller, "sessions:write", session, user)
        revision = await self._revision(key, expected)
        with as_precondition(expected):
            return await self._runner.sessions.rewind(key, invocation_id, revision=revision)

    async def fork(
        self,
        caller: Caller,
        session: str,
        new: str | None,
        before_invocation: str | None,
        user: str | None = None,
        expected: Expected | None = None,
    ) -> Session:
        """`Runner.sessions.fork`. SessionMissing, SessionExists, InvocationMissing, PreconditionFailed."""
        key = self._whose.session(caller, "sessions:write", session, user)
        await self._revision(key, expected)
        copy = self._whose.session(caller, "sessions:write", self._id(new), user)
        return await self._runner.sessions.fork(key, copy.id, before_invocation=before_invocation)

    async def write_state(
        self,
        caller: Caller,
        session: str,
        delta: Mapping[str, JsonValue],
        user: str | None = None,
        expected: Expected | None = None,
    ) -> Session:
        """`Runner.sessions.write_state`. As of `check_state`; SessionMissing, SessionBusy, PreconditionFailed."""
        key = self._whose.session(caller, "sessions:write", session, user)
        check_state(caller, delta, self._runner.config.limits)
        revision = await self._revision(key, expected)
        with as_precondition(expected):
            return await self._runner.sessions.write_state(key, delta, revision=revision)

    async def delete(self, caller: Caller, session: str, user: str | None = None, expected: Expected | None = None) -> None:
        """All that is kept of it. Idempotent. SessionBusy, PreconditionFailed."""
        key = self._whose.session(caller, "sessions:write", session, user)
        if expected is not None:
            expected.check(await self._runner.store.open(key))
        await self._runner.sessions.delete(key)

    async def delete_user(self, caller: Caller, user: str) -> None:
        """All that is kept of that user. Idempotent. SessionBusy."""
        await self._runner.sessions.delete_user(self._whose.user(caller, "sessions:write", user))

    async def _revision(self, key: SessionKey, expected: Expected | None) -> int | None:
        """The revision that the session has, as the request expects it; None when it expects none. SessionMissing."""
        return None if expected is None else expected.check(await self._runner.sessions.get(key))

    def _id(self, given: str | None) -> str:
        return self._issuer.new_id("session") if given is None else given


def check_state(caller: Caller, state: Mapping[str, JsonValue], limits: Limits) -> None:
    """Whether the caller may write that to the state of a session. Forbidden, RequestTooLarge; MessageError for what cannot be
    kept.
    """
    if caller.role != "admin" and any(key.startswith(APP_PREFIX) for key in state):
        raise Forbidden(f"Only admins write keys that begin with {APP_PREFIX!r}: all users share them.", fix="Leave them out.")
    check_delta(state, limits)
    size = len(json.dumps(state, ensure_ascii=False).encode())
    if size > limits.message_bytes:
        raise RequestTooLarge(f"The state has {size:,} bytes, {limits.message_bytes:,} are allowed.", where=("body", "state"))
