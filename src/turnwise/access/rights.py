"""Permissions: what each role may do, and for which users. Pure; the only such table of the gateway."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from turnwise.facts.callers import Caller, Permission, Role
from turnwise.facts.errors import Forbidden, RequestInvalid

Reach = Literal["own", "all"]
"""The users that a permission covers: the caller's own, or all."""

_USER: Mapping[Permission, Reach] = {
    "messages:write": "own",
    "sessions:read": "own",
    "sessions:write": "own",
    "invocations:cancel": "own",
    "artifacts:read": "own",
    "artifacts:write": "own",
    "memories:read": "own",
    "memories:write": "own",
    "agents:read": "own",
    "decisions:read": "own",
}
_OPERATOR: Mapping[Permission, Reach] = {
    **_USER,
    "sessions:read": "all",
    "invocations:cancel": "all",
    "artifacts:read": "all",
    "definitions:read": "all",
    "memories:read": "all",
    "decisions:read": "all",
    "decisions:label": "all",
    "metrics:read": "all",
    "audit:read": "all",
}
# Not even an admin sends messages for other users: that takes a credential that acts for users.
_ADMIN: Mapping[Permission, Reach] = {
    **_OPERATOR,
    "sessions:write": "all",
    "artifacts:write": "all",
    "definitions:write": "all",
    "memories:write": "all",
    "holds:write": "all",
}
RIGHTS: Mapping[Role, Mapping[Permission, Reach]] = {"user": _USER, "operator": _OPERATOR, "admin": _ADMIN}
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)


def require(caller: Caller, permission: Permission) -> None:
    """Raises Forbidden unless the caller has the permission."""
    if not may(caller, permission):
        raise Forbidden(
            f"This credential may not do that: it lacks {permission!r}.", fix="Use one whose role and scopes include it."
        )


def may(caller: Caller, permission: Permission) -> bool:
    """Returns whether the caller has the permission, for at least one user."""
    return permission in RIGHTS[caller.role] and (caller.scopes is None or permission in caller.scopes)


def reaches_all(caller: Caller, permission: Permission) -> bool:
    """Returns whether the caller has the permission for all users. Raises Forbidden when it lacks the permission."""
    require(caller, permission)
    return caller.acts_for_users or RIGHTS[caller.role][permission] == "all"


def user_of(caller: Caller, named: str | None, permission: Permission) -> str:
    """Returns the user that a request is for.

    Args:
        caller: The caller.
        named: The user that the request names; None = the caller's own.
        permission: The permission that the request needs.

    Raises:
        Forbidden: The caller may not do this for the named user, whether that user exists or not.
        RequestInvalid: The request names no user, and the caller has none.
    """
    all_users = reaches_all(caller, permission)
    user = caller.user if named is None else named
    if user is None:
        fix = "Name one: ?user=…" if all_users else "This takes a user's credential, or one that acts for users."
        raise RequestInvalid("This request needs a user.", fix=fix, where=("user",))
    if user != caller.user and not all_users:
        raise Forbidden(
            "This credential may not do that for another user.", fix="Leave out the user, or use another credential."
        )
    return user


def may_report_late_results(caller: Caller) -> bool:
    """Returns whether the caller may report the result of work that a tool started, such as a payment.

    Only the system that did the work may: a credential that acts for users, or an admin. The user could claim any result, and
    an operator only observes.
    """
    return caller.acts_for_users or caller.role == "admin"


def roles_of(caller: Caller, named: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the roles that decide which agents the caller reaches: the named roles, or all of the caller's if none is named.

    Raises:
        Forbidden: The caller does not hold a named role.
    """
    wanted = tuple(dict.fromkeys(named))
    if caller.agent_roles is None:
        return wanted
    lacking = [role for role in wanted if role not in caller.agent_roles]
    if lacking:
        raise Forbidden(f"This credential does not have the role {lacking[0][:64]!r}.", fix="Leave out 'roles', or correct it.")
    return wanted or caller.agent_roles
