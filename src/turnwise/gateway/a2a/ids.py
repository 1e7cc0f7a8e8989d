"""Task ids. Each encodes the session and the message that began the task, so no lookup table is needed."""

from typing import NamedTuple

from turnwise.facts.ids import is_storable_id
from turnwise.gateway.shared.packed_ids import pack_ids, unpack_ids

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
