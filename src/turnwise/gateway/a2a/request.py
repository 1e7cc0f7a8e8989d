"""Who asks for an operation: what the transports hand on, in the context that every operation gets."""

import re
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.utils.errors import VersionNotSupportedError

from turnwise.facts.callers import Caller
from turnwise.gateway.redaction import Redactor

_KEY = "turnwise"


class OperationRequest(NamedTuple):
    """user: whom the request names; None = the caller. view: what the caller is shown. base: the URL of this gateway for him,
    without a slash at the end.
    """

    caller: Caller
    view: Redactor
    user: str | None
    base: str

    def for_user(self, named: str | None) -> "OperationRequest":
        """The same for whom the message itself names, if the request names nobody and the caller acts for users."""
        return self._replace(user=named) if self.user is None and self.caller.acts_for_users else self


def context_of(asking: OperationRequest) -> ServerCallContext:
    """The context of an operation for whoever asks."""
    return ServerCallContext(state={_KEY: asking})


def operation_request(context: ServerCallContext) -> OperationRequest:
    """Who asks."""
    asking: OperationRequest = context.state[_KEY]
    return asking


PROTOCOL_VERSION = "1.0"
VERSION_HEADER = "A2A-Version"

_SUPPORTED = re.compile(r"1\.0(\.[0-9]{1,6})?")
_MOST_QUOTED = 20


def check_version(asked: str | None) -> None:
    """VersionNotSupportedError unless that is spoken here. Patch numbers do not count; nothing means 0.3, by the protocol."""
    text = (asked or "").strip()
    if _SUPPORTED.fullmatch(text):
        return
    told = (
        f"Version {text[:_MOST_QUOTED]!r} of A2A is not spoken here."
        if text
        else f"Without {VERSION_HEADER}, a request is one of A2A 0.3."
    )
    raise VersionNotSupportedError(
        f"{told} Send the header {VERSION_HEADER}: {PROTOCOL_VERSION}.", data={"supported": PROTOCOL_VERSION}
    )
