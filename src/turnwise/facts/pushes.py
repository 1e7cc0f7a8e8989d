"""The configuration of push notifications about an invocation."""

from pydantic import ConfigDict, Field

from turnwise.facts.callers import Caller
from turnwise.facts.fact import Fact


class PushConfig(Fact):
    """The destination of push notifications. The URL, the token and the credentials are secrets."""

    model_config = ConfigDict(hide_input_in_errors=True)

    id: str
    """Unique per message."""
    url: str = Field(repr=False)
    token: str = Field(default="", repr=False)
    """Sent with each notification, so that the receiver can verify it."""
    scheme: str = ""
    """The scheme of the `Authorization` header; empty means no header."""
    credentials: str = Field(default="", repr=False)
    """The credentials of the `Authorization` header."""
    caller: Caller
    """The caller that created the configuration. Notifications contain only what this caller may read."""
    base: str = ""
    """The gateway's URL as this caller knows it, without a trailing slash."""
