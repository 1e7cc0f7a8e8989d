"""The session that a request names: the caller's permission there, the state that it may write, and the expected revisions."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.access.rights import reaches_all, require, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, PreconditionFailed, RequestInvalid, RequestTooLarge, SessionMissing, StaleWriter
from turnwise.facts.limits import Limits
from turnwise.facts.sessions import APP_PREFIX, Session, SessionKey
from turnwise.runner import Runner
from turnwise.runner.admission import check_delta


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


class Expected(NamedTuple):
    """The revisions that a write accepts; None accepts any revision of an existing session."""

    revisions: frozenset[int] | None = None

    def check(self, session: Session | None) -> int | None:
        """Returns the revision that the session must still have when it is written; None if it only has to exist.

        Raises:
            PreconditionFailed: The session has another revision, or does not exist.
        """
        if session is None:
            raise PreconditionFailed("The session does not exist.", fix="Leave out If-Match to create it.", where=_WHERE)
        if self.revisions is not None and session.revision not in self.revisions:
            raise PreconditionFailed(f"The session has revision {session.revision} by now.", fix=FIX, where=_WHERE)
        return None if self.revisions is None else session.revision


@contextmanager
def as_precondition(expected: Expected | None) -> Iterator[None]:
    """Converts StaleWriter and SessionMissing to PreconditionFailed, if the request expects a revision."""
    try:
        yield
    except (StaleWriter, SessionMissing):
        if expected is None:
            raise
        problem = "The session has changed meanwhile, or has queued messages that will change it."
        raise PreconditionFailed(problem, fix=FIX, where=_WHERE) from None


_WHERE = ("header", "If-Match")


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
