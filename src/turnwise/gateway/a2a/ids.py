"""The ids of tasks. Each names the session and the message that began the task, so that it is found by its id alone."""

from typing import NamedTuple

from turnwise.facts.ids import is_storable_id
from turnwise.gateway.shared.packed_ids import packed, unpacked

TASK = "task_"


class TaskName(NamedTuple):
    """The session's id, the id of the message that began the task, and whose session it is; None = of whoever asks."""

    session: str
    message: str
    user: str | None = None

    @property
    def id(self) -> str:
        """The task's id."""
        return TASK + packed(self.session, self.message, *(() if self.user is None else (self.user,)))


def read_name(id_: str) -> TaskName | None:
    """What the id of a task names; None for what can be no such id."""
    found = unpacked(id_.removeprefix(TASK), 2) if id_.startswith(TASK) else None
    return TaskName(*found) if found and all(map(is_storable_id, found)) else None
