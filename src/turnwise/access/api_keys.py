"""API keys: creation, parsing and verification.

A key is `tw_<id>_<secret>`. The 12 characters of the id find the stored record, the 43 characters of the secret prove it.
The secret is 32 random bytes, so one round of SHA-256 is enough. Slow hashes protect secrets that people choose.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest

from turnwise.access.rights import PERMISSIONS, RIGHTS
from turnwise.facts.callers import ApiKey, Caller, Permission, Role
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.ids import ID_CHARACTERS, is_storable_id

LABEL_CHARACTERS = 100
"""Longest name of a key or of an agent role."""
MOST_AGENT_ROLES = 100
_CALLER_PREFIX = "key:"
"""Prefix of the caller id of an API key."""
_KEY_ID = re.compile(r"[0-9a-f]{12}")
_KEY = re.compile(r"tw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def new_key(
    name: str,
    now: datetime,
    *,
    role: Role = "user",
    user: str | None = None,
    acts_for_users: bool = False,
    agent_roles: Sequence[str] = (),
    scopes: Sequence[Permission] | None = None,
    lifetime: timedelta | None = None,
) -> tuple[str, ApiKey]:
    """Creates an API key.

    Args:
        name: A label for people; 1 to 100 printable characters.
        now: The creation time.
        role: The role of the key's callers.
        user: The user that owns the key.
        acts_for_users: Allows the key to name any user.
        agent_roles: The roles that decide which agents the key reaches.
        scopes: The subset of the role's permissions that the key has; None = all of them.
        lifetime: How long the key is valid; None = forever.

    Returns:
        The text of the key and the record to store. The text cannot be recovered from the record.

    Raises:
        RequestInvalid: A name, user, role or scope is not valid, or the rights contradict each other.
    """
    _check_name(name)
    _check_owner(role, user, acts_for_users)
    _check_agent_roles(agent_roles)
    _check_scopes(role, scopes)
    expires_at = None if lifetime is None else _expiry(now, lifetime)
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ApiKey(
        id=id_,
        name=name,
        hash=_hash(secret),
        role=role,
        user=user,
        acts_for_users=acts_for_users,
        agent_roles=tuple(dict.fromkeys(agent_roles)),
        scopes=None if scopes is None else tuple(dict.fromkeys(scopes)),
        created_at=now,
        expires_at=expires_at,
        lifetime=lifetime,
    )
    return f"tw_{id_}_{secret}", key


def read_key(text: str) -> tuple[str, str] | None:
    """Returns the id and the secret of a key's text, or None when the text is not a key."""
    match = _KEY.fullmatch(text)
    return (match[1], match[2]) if match else None


def matches(key: ApiKey, secret: str) -> bool:
    """Returns whether the secret belongs to the key. The comparison takes constant time."""
    return compare_digest(_hash(secret).encode(), key.hash.encode())


def is_valid(key: ApiKey, now: datetime) -> bool:
    """Returns whether the key has neither expired nor been revoked."""
    return key.expires_at is None or now < key.expires_at


def is_key_id(text: str) -> bool:
    """Returns whether the text has the form of a key's id."""
    return _KEY_ID.fullmatch(text) is not None


def caller_id(key_id: str) -> str:
    """Returns the caller's id of a key."""
    return f"{_CALLER_PREFIX}{key_id}"


def caller_of(key: ApiKey) -> Caller:
    """Returns the caller that the key authenticates."""
    return Caller(
        id=caller_id(key.id),
        role=key.role,
        user=key.user,
        acts_for_users=key.acts_for_users,
        agent_roles=key.agent_roles,
        scopes=key.scopes,
    )


def key_of(caller: Caller) -> str | None:
    """Returns the id of the API key that the caller used, or None when the caller used another credential."""
    return caller.id.removeprefix(_CALLER_PREFIX) if caller.id.startswith(_CALLER_PREFIX) else None


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _is_label(text: str) -> bool:
    return 1 <= len(text) <= LABEL_CHARACTERS and text.isprintable() and text == text.strip()


def _check_name(name: str) -> None:
    if not _is_label(name):
        raise RequestInvalid(
            "The name of the key is not valid.", fix=f"Use 1 to {LABEL_CHARACTERS} printable characters.", where=("name",)
        )


def _check_owner(role: Role, user: str | None, acts_for_users: bool) -> None:
    """Raises RequestInvalid unless role and user fit: a user's key has one user or acts for all."""
    if role not in RIGHTS:
        raise RequestInvalid(f"There is no role {role[:40]!r}.", fix=f"Known are {', '.join(RIGHTS)}.", where=("role",))
    if user is not None and not is_storable_id(user):
        fix = f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates."
        raise RequestInvalid("The id of the user is not valid.", fix=fix, where=("user",))
    if acts_for_users and user is not None:
        raise RequestInvalid(
            "A key belongs to one user or acts for all users, not both.", fix="Leave out one of them.", where=("user",)
        )
    if acts_for_users and role != "user":
        raise RequestInvalid(
            f"A key that acts for users does what users may, not what an {role} may.",
            fix="Make two keys, or leave out the role.",
            where=("role",),
        )
    if role == "user" and user is None and not acts_for_users:
        raise RequestInvalid("An API key needs a user.", fix="Name its user, or let it act for all users.", where=("user",))


def _check_agent_roles(agent_roles: Sequence[str]) -> None:
    """Raises RequestInvalid for too many or invalid agent roles."""
    if len(agent_roles) > MOST_AGENT_ROLES:
        raise RequestInvalid(
            f"A key has {MOST_AGENT_ROLES} agent roles at most.", fix="Leave some out.", where=("agent_roles",)
        )
    for name in agent_roles:
        if not _is_label(name):
            raise RequestInvalid(
                "An agent role is not valid.",
                fix=f"Use 1 to {LABEL_CHARACTERS} printable characters.",
                where=("agent_roles",),
            )


def _check_scopes(role: Role, scopes: Sequence[Permission] | None) -> None:
    """Raises RequestInvalid for a scope that the role does not have."""
    for scope in scopes or ():
        if scope not in PERMISSIONS:
            fix = f"Known are {', '.join(PERMISSIONS)}."
            raise RequestInvalid(f"There is no scope {scope[:40]!r}.", fix=fix, where=("scopes",))
        if scope not in RIGHTS[role]:
            raise RequestInvalid(
                f"The scope {scope!r} is more than the role {role!r} may do.",
                fix=f"Leave it out, or give the key a role that may: {', '.join(r for r in RIGHTS if scope in RIGHTS[r])}.",
                where=("scopes",),
            )


def _expiry(now: datetime, lifetime: timedelta) -> datetime:
    """Returns the end of a key's life. Raises RequestInvalid for an invalid lifetime."""
    try:
        if lifetime > timedelta():
            return now + lifetime
    except OverflowError:
        pass
    raise RequestInvalid(
        "The lifetime of a key must be positive and end before the year 10000.", fix="Choose another.", where=("expires_at",)
    )
