"""Authorization of requests: resolves the user and the session, and checks the caller's permission."""

from turnwise.access.rights import reaches_all, require, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, RequestInvalid
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Runner


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
