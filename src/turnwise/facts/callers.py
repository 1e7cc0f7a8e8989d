"""Callers as their credentials identify them, and stored API keys."""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Literal

from pydantic import Field

from turnwise.facts.fact import Fact

Role = Literal["user", "operator", "admin"]
Permission = Literal[
    "messages:write",
    "sessions:read",
    "sessions:write",
    "invocations:cancel",
    "artifacts:read",
    "artifacts:write",
    "memories:read",
    "memories:write",
    "agents:read",
    "definitions:read",
    "definitions:write",
    "decisions:read",
    "decisions:label",
    "metrics:read",
    "audit:read",
    "holds:write",
]
"""The permissions to which a credential can be restricted."""


class Caller(Fact):
    """The caller of a request, as its credential identifies it. The request itself cannot change it."""

    id: str
    """The id of the credential or of the token's subject, for limits, logs and records; never a secret."""
    role: Role = "user"
    user: str | None = None
    """The user that owns the caller's sessions; None means that each request must name a user."""
    acts_for_users: bool = False
    """True if the caller may name any user and act as that user."""
    agent_roles: tuple[str, ...] | None = ()
    """The roles that grant access to agents (behaviour C20); None means any role that a request names."""
    scopes: tuple[Permission, ...] | None = None
    """The permitted subset of the role's permissions; None means all of them."""


LOCAL_ID = "local"
"""The caller's id while authentication is off."""


def credential_digest(id: str) -> str:
    """Returns the digest of a caller's id that is stored with messages; empty for `LOCAL_ID`, which is no credential."""
    if id == LOCAL_ID:
        return ""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class ApiKey(Fact):
    """A stored API key, with the hash of its secret. Fields not described here are as in `Caller`."""

    id: str
    """12 characters, part of the key."""
    name: str
    """For people."""
    hash: str = Field(repr=False)
    role: Role = "user"
    user: str | None = None
    acts_for_users: bool = False
    agent_roles: tuple[str, ...] = ()
    scopes: tuple[Permission, ...] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    """The key is invalid from this time on; None means never. A revoked key expired when it was revoked."""
    lifetime: timedelta | None = None
    """The lifetime for which the key was created, even if it was revoked; None means unlimited."""
