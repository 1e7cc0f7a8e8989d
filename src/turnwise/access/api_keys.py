"""API keys: their text, which only its owner has, and what is kept of it.

A key is `tw_<id>_<secret>`: 12 characters that find it, 43 that prove it. The secret is 32 random bytes, which nobody can
guess, so one round of SHA-256 keeps it: hashes that are slow on purpose protect what people make up.
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
MOST_AGENT_ROLES = 100
_CALLER_PREFIX = "key:"
"""What the id of a caller begins with who came with a key."""
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
    """A new key: its text, which cannot be had a second time, and what is to be kept. lifetime: None = for ever.

    RequestInvalid for rights that make no sense together, and for what cannot be a name, a user, a role or a scope.
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
    """The id and the secret in a key's text; None for whatever is no such text."""
    found = _KEY.fullmatch(text)
    return (found[1], found[2]) if found else None


def matches(key: ApiKey, secret: str) -> bool:
    """Whether that is the key's secret; it takes as long for a wrong one, wherever it is wrong."""
    return compare_digest(_hash(secret).encode(), key.hash.encode())


def is_valid(key: ApiKey, now: datetime) -> bool:
    """Whether it has not expired, nor been revoked."""
    return key.expires_at is None or now < key.expires_at


def caller_of(key: ApiKey) -> Caller:
    """Who asks with that key."""
    return Caller(
        id=f"{_CALLER_PREFIX}{key.id}",
        role=key.role,
        user=key.user,
        acts_for_users=key.acts_for_users,
        agent_roles=key.agent_roles,
        scopes=key.scopes,
    )


def key_of(caller: Caller) -> str | None:
    """The id of the key with which the caller came; None for one who came otherwise."""
    return caller.id.removeprefix(_CALLER_PREFIX) if caller.id.startswith(_CALLER_PREFIX) else None


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _is_label(text: str) -> bool:
    return 1 <= len(text) <= LABEL_CHARACTERS and text.isprintable() and text == text.strip()


def _check_name(name: str) -> None:
    if not _is_label(name):
        raise RequestInvalid(
            "That cannot be the name of a key.", fix=f"Use 1 to {LABEL_CHARACTERS} printable characters.", where=("name",)
        )


def _check_owner(role: Role, user: str | None, acts_for_users: bool) -> None:
    if role not in RIGHTS:
        raise RequestInvalid(f"There is no role {role[:40]!r}.", fix=f"Known are {', '.join(RIGHTS)}.", where=("role",))
    if user is not None and not is_storable_id(user):
        fix = f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates."
        raise RequestInvalid("That cannot be the id of a user.", fix=fix, where=("user",))
    if acts_for_users and user is not None:
        raise RequestInvalid(
            "A key is either one user's, or acts for all of them.", fix="Leave out one of both.", where=("user",)
        )
    if acts_for_users and role != "user":
        raise RequestInvalid(
            f"A key that acts for users does what users may, not what an {role} may.",
            fix="Make two keys, or leave out the role.",
            where=("role",),
        )
    if role == "user" and user is None and not acts_for_users:
        raise RequestInvalid(
            "It is not said whose key that is to be.", fix="Name its user, or let it act for all users.", where=("user",)
        )


def _check_agent_roles(agent_roles: Sequence[str]) -> None:
    if len(agent_roles) > MOST_AGENT_ROLES:
        raise RequestInvalid(
            f"A key has {MOST_AGENT_ROLES} agent roles at most.", fix="Leave some out.", where=("agent_roles",)
        )
    for name in agent_roles:
        if not _is_label(name):
            raise RequestInvalid(
                "That cannot be a role by which agents are reached.",
                fix=f"Use 1 to {LABEL_CHARACTERS} printable characters.",
                where=("agent_roles",),
            )


def _check_scopes(role: Role, scopes: Sequence[Permission] | None) -> None:
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
    try:
        if lifetime > timedelta():
            return now + lifetime
    except OverflowError:
        pass
    raise RequestInvalid("So long no key can count.", fix="Give it a time that ends in the calendar.", where=("expires_at",))
