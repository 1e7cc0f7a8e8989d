"""Whose things a request is about: every door asks here before it touches anything."""

from turnwise.access.rights import reaches_all, require, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, RequestInvalid
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Runner


class SessionScope:
    """The users and sessions of one app, as callers may name them."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def session(self, caller: Caller, permission: Permission, session: str, user: str | None = None) -> SessionKey:
        """The key of that session of the caller's, or of the user who is named, for doing that with it.

        Forbidden, RequestInvalid as of `user_of`; MessageError for what can be no id. Whether there is such a session is not
        looked at: so nobody learns it of another's.
        """
        return self._runner.key(user_of(caller, user, permission), session)

    def user(self, caller: Caller, permission: Permission, user: str | None = None) -> str:
        """The user for whom that is done: the caller, or who is named. Forbidden, RequestInvalid, MessageError."""
        return self._runner.key(user_of(caller, user, permission), "-").user

    def users(self, caller: Caller, permission: Permission, user: str | None = None, *, everybody: bool) -> str | None:
        """As `user`; None = all users, if `everybody` is asked for. Forbidden for whoever does not reach all of them."""
        if not everybody:
            return self.user(caller, permission, user)
        if user is not None:
            raise RequestInvalid("It names a user, and asks for all.", fix="Leave out one of them.", where=("query", "user"))
        if not reaches_all(caller, permission):
            raise Forbidden("This credential may not do that for all users.", fix="Name your own user, or none.")
        return None

    def reaches_all(self, caller: Caller, permission: Permission) -> bool:
        """Whether the caller may do that for every user. Forbidden when for none."""
        return reaches_all(caller, permission)

    def require(self, caller: Caller, permission: Permission) -> None:
        """Forbidden unless the caller may do that at all."""
        require(caller, permission)
