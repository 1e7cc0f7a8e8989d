"""The caller of an operation, carried in the SDK's call context, and the supported protocol version."""

import re
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.utils.errors import VersionNotSupportedError

from turnwise.facts.callers import Caller
from turnwise.facts.ids import is_storable_id
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.shared.packed_ids import pack_ids, unpack_ids

_KEY = "turnwise"
PROTOCOL_VERSION = "1.0"
VERSION_HEADER = "A2A-Version"
_SUPPORTED = re.compile(r"1\.0(\.[0-9]{1,6})?")
_MOST_QUOTED = 20


class OperationRequest(NamedTuple):
    """The caller and the view of one request."""

    services: Services
    """The services for the caller and the user that the request names."""
    view: Redactor
    """Redacts events for the caller."""
    base: str
    """This gateway's URL for the caller, without a trailing slash."""

    @property
    def caller(self) -> Caller:
        return self.services.scope.caller

    @property
    def user(self) -> str | None:
        """The user that the request names; None = the caller's own."""
        return self.services.scope.named

    def for_user(self, user: str | None) -> "OperationRequest":
        """Uses the message's user if the request names none and the caller acts for users."""
        uses_it = self.user is None and self.caller.acts_for_users
        return self._replace(services=self.services.for_user(user)) if uses_it else self


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


TASK = "task_"


class TaskId(NamedTuple):
    """The decoded parts of a task id."""

    session: str
    """The session's id."""
    message: str
    """The id of the message that began the task."""
    user: str | None = None
    """The session's owner; None = the requesting caller."""

    @property
    def id(self) -> str:
        """The encoded id."""
        return TASK + pack_ids(self.session, self.message, *(() if self.user is None else (self.user,)))


def parse_task_id(id_: str) -> TaskId | None:
    """Decodes a task id; None for a malformed one."""
    fields = unpack_ids(id_.removeprefix(TASK), 2) if id_.startswith(TASK) else None
    return TaskId(*fields) if fields and all(map(is_storable_id, fields)) else None
