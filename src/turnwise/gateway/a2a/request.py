"""The caller of an operation, carried in the SDK's call context, and the supported protocol version."""

import re
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.utils.errors import VersionNotSupportedError

from turnwise.facts.callers import Caller
from turnwise.gateway.redaction import Redactor

_KEY = "turnwise"
PROTOCOL_VERSION = "1.0"
VERSION_HEADER = "A2A-Version"
_SUPPORTED = re.compile(r"1\.0(\.[0-9]{1,6})?")
_MOST_QUOTED = 20


class OperationRequest(NamedTuple):
    """The caller and the view of one request."""

    caller: Caller
    view: Redactor
    """Redacts events for the caller."""
    user: str | None
    """The user that the request names; None = the caller's own."""
    base: str
    """This gateway's URL for the caller, without a trailing slash."""

    def for_user(self, user: str | None) -> "OperationRequest":
        """Uses the message's user if the request names none and the caller acts for users."""
        return self._replace(user=user) if self.user is None and self.caller.acts_for_users else self


def context_of(operation: OperationRequest) -> ServerCallContext:
    """Wraps an OperationRequest in the SDK's call context."""
    return ServerCallContext(state={_KEY: operation})


def operation_request(context: ServerCallContext) -> OperationRequest:
    """Returns the OperationRequest of a call context."""
    operation: OperationRequest = context.state[_KEY]
    return operation


def check_version(version: str | None) -> None:
    """Raises VersionNotSupportedError unless the version is supported.

    Patch numbers are ignored. The protocol defines a missing version as 0.3.
    """
    text = (version or "").strip()
    if _SUPPORTED.fullmatch(text):
        return
    problem = (
        f"Version {text[:_MOST_QUOTED]!r} of A2A is not supported."
        if text
        else f"A request without {VERSION_HEADER} is A2A 0.3, which is not supported."
    )
    raise VersionNotSupportedError(
        f"{problem} Send the header {VERSION_HEADER}: {PROTOCOL_VERSION}.", data={"supported": PROTOCOL_VERSION}
    )
