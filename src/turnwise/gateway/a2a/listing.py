"""A user's tasks, listed."""

import asyncio
from collections.abc import Mapping
from datetime import UTC
from types import MappingProxyType

from a2a.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.errors import TaskNotFoundError

from turnwise.facts.events import LIMIT
from turnwise.gateway.a2a.asking import Asking
from turnwise.gateway.a2a.found import find
from turnwise.gateway.a2a.incoming import refused
from turnwise.gateway.a2a.names import TaskName
from turnwise.gateway.a2a.telling import Telling, history_of
from turnwise.gateway.door.tasks import Task as Going
from turnwise.gateway.door.tasks import TaskPage
from turnwise.gateway.front import Front

PAGE, MOST = 50, 100

STATES: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        TaskState.TASK_STATE_SUBMITTED: ("queued",),
        TaskState.TASK_STATE_WORKING: ("running", "waiting"),
        TaskState.TASK_STATE_INPUT_REQUIRED: ("waiting",),
        TaskState.TASK_STATE_AUTH_REQUIRED: ("never",),
        TaskState.TASK_STATE_COMPLETED: ("completed", "clarify", "loop", "limit:transfers"),
        TaskState.TASK_STATE_FAILED: ("failed", "loop", LIMIT),
        TaskState.TASK_STATE_CANCELED: ("cancelled",),
        TaskState.TASK_STATE_REJECTED: ("blocked",),
    }
)
"""How an invocation stands whose task is in that state; some of them stand in two, and are looked at."""


async def tasks_of(front: Front, asking: Asking, asked: ListTasksRequest) -> ListTasksResponse:
    """A page of the tasks of the user for whom it is asked, those that changed last first. RequestInvalid, CursorInvalid."""
    size = asked.page_size if asked.HasField("page_size") else PAGE
    if not 1 <= size <= MOST:
        raise refused("pageSize", f"It is not from 1 to {MOST}.")
    wanted = asked.status
    if wanted and wanted not in STATES:
        raise refused("status", "There is no such state.")
    history = history_of(asked) or 0
    since = asked.status_timestamp_after.ToDatetime(UTC) if asked.HasField("status_timestamp_after") else None
    page = await front.tasks.page(
        asking.caller,
        user=asking.user,
        session=asked.context_id or None,
        states=STATES[wanted] if wanted else None,
        since=since,
        after=asked.page_token or None,
        limit=size,
    )
    shown = await asyncio.gather(*(_task(front, asking, each, asked, history) for each in page.items))
    return _response([task for task in shown if task is not None and wanted in (0, task.status.state)], page, size)


async def _task(front: Front, asking: Asking, going: Going, asked: ListTasksRequest, history: int) -> Task | None:
    """The task; None when it was taken back meanwhile."""
    name = TaskName(going.session, going.message_id, None if asking.user == asking.caller.user else asking.user)
    try:
        record = await find(front, asking, name.id)
    except TaskNotFoundError:
        return None
    return await Telling(front, asking, name, history).task(record, artifacts=asked.include_artifacts)


def _response(tasks: list[Task], page: TaskPage, size: int) -> ListTasksResponse:
    return ListTasksResponse(tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=page.total)
