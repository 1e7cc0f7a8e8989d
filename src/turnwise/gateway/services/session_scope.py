"""Authorization of requests: resolves the user and the session, and checks the caller's permission."""

from turnwise.access.rights import reaches_all, require, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, RequestInvalid
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Runner


class SessionScope:
    """Resolves the users and sessions of one app that callers name. Every service calls it before it reads or writes."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def session(self, caller: Caller, permission: Permission, session: str, user: str | None = None) -> SessionKey:
        """Returns the session's key, if the caller has the permission there. Does not check that the session exists.

        Args:
            caller: The caller.
            permission: The permission that the operation needs.
            session: The session's id.
            user: The user that the request names; None for the caller.

        Raises:
            Forbidden: The caller does not have the permission for this user.
            RequestInvalid: As for `user_of`.
            MessageError: The id is not a valid id.
        """
        return self._runner.key(user_of(caller, user, permission), session)

    def user(self, caller: Caller, permission: Permission, user: str | None = None) -> str:
        """Returns the user that the operation is for: `user`, or the caller.

        Raises:
            Forbidden: The caller does not have the permission for this user.
            RequestInvalid: As for `user_of`.
            MessageError: The id is not a valid id.
        """
        return self._runner.key(user_of(caller, user, permission), "-").user

    def users(self, caller: Caller, permission: Permission, user: str | None = None, *, everybody: bool) -> str | None:
        """Returns the user as `user` does; None for all users, if `everybody` is set.

        Raises:
            RequestInvalid: The request names a user and `everybody`.
            Forbidden: The caller does not have the permission for all users.
        """
        if not everybody:
            return self.user(caller, permission, user)
        if user is not None:
            raise RequestInvalid(
                "The request names a user and asks for all users.", fix="Leave out one of them.", where=("query", "user")
            )
        if not reaches_all(caller, permission):
            raise Forbidden("This credential may not do that for all users.", fix="Name your own user, or none.")
        return None

    def reaches_all(self, caller: Caller, permission: Permission) -> bool:
        """Returns whether the caller has the permission for every user. Raises Forbidden if for none."""
        return reaches_all(caller, permission)

    def require(self, caller: Caller, permission: Permission) -> None:
        """Raises Forbidden unless the caller has the permission for at least one user."""
        require(caller, permission)
