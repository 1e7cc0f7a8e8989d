"""What a caller may do, and in whose name. Pure: the one table of the gateway's rights."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from turnwise.facts.callers import Caller, Permission, Role
from turnwise.facts.errors import Forbidden, RequestInvalid

Reach = Literal["own", "all"]
"""Over whom a permission goes: a caller's own user, or every user."""

_USER: Mapping[Permission, Reach] = {
    "messages:write": "own",
    "sessions:read": "own",
    "sessions:write": "own",
    "invocations:cancel": "own",
    "artifacts:read": "own",
    "artifacts:write": "own",
    "agents:read": "own",
    "decisions:read": "own",
}
_OPERATOR: Mapping[Permission, Reach] = {
    **_USER,
    "sessions:read": "all",
    "invocations:cancel": "all",
    "artifacts:read": "all",
    "decisions:read": "all",
    "decisions:label": "all",
    "metrics:read": "all",
}
# Nobody speaks in another's name for his rank: that takes a credential that acts for users.
_ADMIN: Mapping[Permission, Reach] = {**_OPERATOR, "sessions:write": "all", "artifacts:write": "all"}
RIGHTS: Mapping[Role, Mapping[Permission, Reach]] = {"user": _USER, "operator": _OPERATOR, "admin": _ADMIN}
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)


def require(caller: Caller, permission: Permission) -> None:
    """Forbidden unless the caller may do that, for whomever."""
    if permission not in RIGHTS[caller.role] or (caller.scopes is not None and permission not in caller.scopes):
        raise Forbidden(
            f"This credential may not do that: it lacks {permission!r}.", fix="Use one whose role and scopes include it."
        )


def reaches_all(caller: Caller, permission: Permission) -> bool:
    """Whether the caller may do that for every user; Forbidden when for none."""
    require(caller, permission)
    return caller.acts_for_users or RIGHTS[caller.role][permission] == "all"


def user_of(caller: Caller, named: str | None, permission: Permission) -> str:
    """The user for whom the caller does that: who is named, else the caller's own.

    Forbidden for a named one whom the caller may not do that for, whether there is such a user or not; RequestInvalid when
    nobody is named and the caller is no user.
    """
    everybody = reaches_all(caller, permission)
    user = caller.user if named is None else named
    if user is None:
        fix = "Name one: ?user=…" if everybody else "This takes a user's credential, or one that acts for users."
        raise RequestInvalid("It is not said for which user that is to be.", fix=fix, where=("user",))
    if user != caller.user and not everybody:
        raise Forbidden(
            "This credential may not do that for another user.", fix="Leave out the user, or use another credential."
        )
    return user


def may_report_late_results(caller: Caller) -> bool:
    """Whether the caller may say what became of work that an agent's tool began, such as a payment.

    Whoever did the work says so, with a credential that acts for users. The user for whom it is done could say anything, and
    an operator watches.
    """
    return caller.acts_for_users or caller.role == "admin"


def roles_of(caller: Caller, named: Iterable[str] = ()) -> tuple[str, ...]:
    """The roles by which the caller reaches agents: those that the request names, all of the caller's if it names none.

    Forbidden for one that the caller does not have.
    """
    wanted = tuple(dict.fromkeys(named))
    if caller.agent_roles is None:
        return wanted
    lacking = [role for role in wanted if role not in caller.agent_roles]
    if lacking:
        raise Forbidden(f"This credential does not have the role {lacking[0][:64]!r}.", fix="Leave out 'roles', or correct it.")
    return wanted or caller.agent_roles
