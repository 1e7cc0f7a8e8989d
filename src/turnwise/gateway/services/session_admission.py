"""Admission to a session: the caller's permission, the state keys that it may write, expected revisions, and the price."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.access.quotas import Quotas
from turnwise.access.rights import reaches_all, require, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, PreconditionFailed, RequestInvalid, RequestTooLarge, SessionMissing, StaleWriter
from turnwise.facts.limits import Limits
from turnwise.facts.sessions import APP_PREFIX, Session, SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner import Runner
from turnwise.runner.admission import check_delta
from turnwise.runner.allowances import copied_bytes


class SessionScope:
    """Resolves the user and the sessions of one app that a request names. Every service asks it before it reads or writes.

    Args:
        runner: The runner of the app.
        caller: The caller.
        named: The user that the request names; None for the caller.
    """

    def __init__(self, runner: Runner, caller: Caller, named: str | None = None) -> None:
        self._runner = runner
        self.caller, self.named = caller, named

    def session(self, permission: Permission, session: str) -> SessionKey:
        """Returns the session's key, if the caller has the permission there. Does not check that the session exists.

        Raises:
            Forbidden: The caller does not have the permission for this user.
            RequestInvalid: As for `user_of`.
            MessageError: The id is not a valid id.
        """
        return self._runner.key(user_of(self.caller, self.named, permission), session)

    def user(self, permission: Permission) -> str:
        """Returns the user that the operation is for.

        Raises:
            Forbidden: The caller does not have the permission for this user.
            RequestInvalid: As for `user_of`.
            MessageError: The id is not a valid id.
        """
        return self.session(permission, "-").user

    def users(self, permission: Permission, *, everybody: bool) -> str | None:
        """Returns the user as `user` does; None for all users, if `everybody` is set.

        Raises:
            RequestInvalid: The request names a user and `everybody`.
            Forbidden: The caller does not have the permission for all users.
        """
        if not everybody:
            return self.user(permission)
        if self.named is not None:
            raise RequestInvalid(
                "The request names a user and asks for all users.", fix="Leave out one of them.", where=("query", "user")
            )
        if not reaches_all(self.caller, permission):
            raise Forbidden("This credential may not do that for all users.", fix="Name your own user, or none.")
        return None

    def reaches_all(self, permission: Permission) -> bool:
        """Returns whether the caller has the permission for every user. Raises Forbidden if for none."""
        return reaches_all(self.caller, permission)

    def require(self, permission: Permission) -> None:
        """Raises Forbidden unless the caller has the permission for at least one user."""
        require(self.caller, permission)


FIX = "Read the session again, and send its new ETag."
_NAMED = 5
"""The most expected revisions that an error names."""
_WHERE = ("header", "If-Match")


class Expected(NamedTuple):
    """The revisions that a write accepts; None accepts any revision of an existing session."""

    revisions: frozenset[int] | None = None

    def check(self, session: Session | None) -> int | None:
        """Returns the revision that the session must still have when it is written; None if it only has to exist.

        Raises:
            PreconditionFailed: The session has another revision, or does not exist.
        """
        if session is None or not self._accepts(session):
            raise self.unmet(session)
        return None if self.revisions is None else session.revision

    def unmet(self, session: Session | None) -> PreconditionFailed:
        """Returns the error of a write that was refused. It names the expected revisions and the session's own.

        Args:
            session: The session as it is now; None if it does not exist.
        """
        if session is None:
            return PreconditionFailed("The session does not exist.", fix="Leave out If-Match to create it.", where=_WHERE)
        if self._accepts(session):  # a queued message, for example, has not changed it yet
            problem = f"The session still has revision {session.revision}, but another write came first or waits in its queue."
            return PreconditionFailed(problem, fix=FIX, where=_WHERE)
        problem = f"If-Match expects {self._named()}, the session has revision {session.revision}."
        return PreconditionFailed(problem, fix=FIX, where=_WHERE)

    def _accepts(self, session: Session) -> bool:
        return self.revisions is None or session.revision in self.revisions

    def _named(self) -> str:
        if not self.revisions:
            return "no revision of a session"
        named = [str(revision) for revision in sorted(self.revisions)[:_NAMED]]
        return f"revision {', '.join(named)}{', …' if len(self.revisions) > _NAMED else ''}"


@asynccontextmanager
async def as_precondition(expected: Expected | None, store: SessionStore, key: SessionKey) -> AsyncIterator[None]:
    """Converts StaleWriter and SessionMissing to PreconditionFailed, if the request expects a revision.

    Args:
        expected: What the request expects; None if it expects nothing.
        store: The store of the session, which is read once more for the error.
        key: The session.
    """
    try:
        yield
    except (StaleWriter, SessionMissing):
        if expected is None:
            raise
        raise expected.unmet(await store.open(key)) from None


def check_state(caller: Caller, state: Mapping[str, JsonValue], limits: Limits) -> None:
    """Checks whether the caller may write these keys to a session's state.

    Raises:
        Forbidden: A key begins with `app:` and the caller is not an admin.
        RequestTooLarge: The state exceeds `limits.message_bytes`.
        MessageError: A value cannot be stored.
    """
    if caller.role != "admin" and any(key.startswith(APP_PREFIX) for key in state):
        raise Forbidden(f"Only admins write keys that begin with {APP_PREFIX!r}: all users share them.", fix="Leave them out.")
    check_delta(state, limits)
    size = len(json.dumps(state, ensure_ascii=False).encode())
    if size > limits.message_bytes:
        raise RequestTooLarge(f"The state has {size:,} bytes, the limit is {limits.message_bytes:,}.", where=("body", "state"))


CHANGE, FORK = 2, 4
"""The price of a rewind or deletion, and of a fork, before its data."""
EVENTS, BYTES = 1_000, 1024 * 1024
"""The number of events, or of bytes, that costs one more request."""
EXCHANGES, SESSIONS = 10, 10
"""The number of imported exchanges, or of sessions of a deleted user, that costs one more request."""


class Prices:
    """Counts operations for the quotas of their callers. Every method raises TooMany before anything is done."""

    def __init__(self, runner: Runner, quotas: Quotas, caller: Caller) -> None:
        self._runner, self._quotas, self._caller = runner, quotas, caller

    async def change(self, key: SessionKey) -> None:
        """Counts a rewind, a regeneration or a deletion, by the session's log."""
        await self._quotas.work(self._caller, key.user, CHANGE + log_price(await self._runner.store.open(key)))

    async def fork(self, key: SessionKey) -> None:
        """Counts a fork, by the artifacts that it copies: it shares the events."""
        artifacts = self._runner.artifacts
        size = 0 if artifacts is None else await copied_bytes(artifacts, key)
        await self._quotas.work(self._caller, key.user, FORK + size // BYTES)

    async def delete_user(self, user: str) -> None:
        """Counts the deletion of all data of a user, by its sessions and their logs."""
        usage = await self._runner.store.maintenance.usage(self._runner.app, user)
        await self._quotas.work(self._caller, user, CHANGE + usage.sessions // SESSIONS + usage.bytes // BYTES)

    async def search(self, session: Session) -> None:
        """Counts a search in the whole log of a session."""
        await self._quotas.work(self._caller, session.key.user, log_price(session))

    async def imports(self, key: SessionKey, exchanges: int) -> None:
        """Counts an import, by its exchanges. Its bytes were counted when they were received."""
        await self._quotas.work(self._caller, key.user, exchanges // EXCHANGES)


def log_price(session: Session | None) -> int:
    """Returns the price of working on a session's whole log; 0 without a session."""
    return 0 if session is None else session.last_sequence // EVENTS + session.bytes // BYTES
