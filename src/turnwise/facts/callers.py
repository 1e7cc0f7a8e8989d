"""Who asks: a caller as a credential makes him, and the API keys that are kept."""

from datetime import datetime, timedelta
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
    "agents:read",
    "decisions:read",
    "decisions:label",
    "metrics:read",
]
"""What a credential may be narrowed to."""


class Caller(Fact):
    """Who asks, as the credential says, never as the request does.

    id: of the credential or the token's subject, for limits, logs and records; never a secret. user: whose sessions it has;
    None = none of its own, so that each request has to name a user. acts_for_users: it may name any user, and is that user
    then. agent_roles: the roles by which agents are reached (behaviour C20); None = any that a request names. scopes: all it
    may do of what its role may; None = all of that.
    """

    id: str
    role: Role = "user"
    user: str | None = None
    acts_for_users: bool = False
    agent_roles: tuple[str, ...] | None = ()
    scopes: tuple[Permission, ...] | None = None


class ApiKey(Fact):
    """A kept API key: all but its secret, of which there is only the hash. The rest as of `Caller`.

    id: 12 characters, part of the key. name: for people. expires_at: from when on it does not count; None = never. A key that
    was revoked expired at that moment. lifetime: how long it was made for, whatever became of that; None = for ever.
    """

    id: str
    name: str
    hash: str = Field(repr=False)
    role: Role = "user"
    user: str | None = None
    acts_for_users: bool = False
    agent_roles: tuple[str, ...] = ()
    scopes: tuple[Permission, ...] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    lifetime: timedelta | None = None
