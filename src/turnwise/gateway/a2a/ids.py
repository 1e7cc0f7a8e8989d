"""The ids of tasks. Each names the session and the message that began the task, so that it is found by its id alone."""

from typing import NamedTuple

from turnwise.facts.ids import is_storable_id
from turnwise.gateway.shared.packed_ids import pack_ids, unpack_ids

TASK = "task_"


class TaskId(NamedTuple):
    """The session's id, the id of the message that began the task, and whose session it is; None = of whoever asks."""

    session: str
    message: str
    user: str | None = None

    @property
    def id(self) -> str:
        """The task's id."""
        return TASK + pack_ids(self.session, self.message, *(() if self.user is None else (self.user,)))


def parse_task_id(id_: str) -> TaskId | None:
    """What the id of a task names; None for what can be no such id."""
    found = unpack_ids(id_.removeprefix(TASK), 2) if id_.startswith(TASK) else None
    return TaskId(*found) if found and all(map(is_storable_id, found)) else None
