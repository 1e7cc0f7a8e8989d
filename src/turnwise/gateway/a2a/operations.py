"""The operations of the protocol, whichever way they are asked for.

The methods have the signatures of the SDK's `RequestHandler`, so that what the SDK puts on top of one can stand on this.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC
from types import MappingProxyType

from a2a.server.context import ServerCallContext
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from turnwise.facts.events import LIMIT
from turnwise.gateway.a2a.card import extended_card
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.a2a.lookup import find_task, user_of_task
from turnwise.gateway.a2a.messages import IncomingMessage, invalid_field
from turnwise.gateway.a2a.push.configs import PushConfigs
from turnwise.gateway.a2a.request import OperationRequest, operation_request
from turnwise.gateway.a2a.start import SentMessage, send_message
from turnwise.gateway.a2a.stream import StreamItem, TaskStream, history_of
from turnwise.gateway.a2a.task_state import FINAL_STATES, TaskRecord
from turnwise.gateway.front import Front
from turnwise.gateway.services.invocations import Task as Going
from turnwise.gateway.services.invocations import TaskPage

PAGE, MOST = 50, 100

INVOCATION_STATUSES: Mapping[int, tuple[str, ...]] = MappingProxyType(
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


async def list_tasks(front: Front, asking: OperationRequest, asked: ListTasksRequest) -> ListTasksResponse:
    """A page of the tasks of the user for whom it is asked, those that changed last first. RequestInvalid, CursorInvalid."""
    size = asked.page_size if asked.HasField("page_size") else PAGE
    if not 1 <= size <= MOST:
        raise invalid_field("pageSize", f"It is not from 1 to {MOST}.")
    wanted = asked.status
    if wanted and wanted not in INVOCATION_STATUSES:
        raise invalid_field("status", "There is no such state.")
    history = history_of(asked) or 0
    since = asked.status_timestamp_after.ToDatetime(UTC) if asked.HasField("status_timestamp_after") else None
    page = await front.tasks.page(
        asking.caller,
        user=asking.user,
        session=asked.context_id or None,
        states=INVOCATION_STATUSES[wanted] if wanted else None,
        since=since,
        after=asked.page_token or None,
        limit=size,
    )
    shown = await asyncio.gather(*(_task(front, asking, each, asked, history) for each in page.items))
    return _response([task for task in shown if task is not None and wanted in (0, task.status.state)], page, size)


async def _task(front: Front, asking: OperationRequest, going: Going, asked: ListTasksRequest, history: int) -> Task | None:
    """The task; None when it was taken back meanwhile."""
    name = TaskId(going.session, going.message_id, None if asking.user == asking.caller.user else asking.user)
    try:
        record = await find_task(front, asking, name.id)
    except TaskNotFoundError:
        return None
    return await TaskStream(front, asking, name, history).task(record, artifacts=asked.include_artifacts)


def _response(tasks: list[Task], page: TaskPage, size: int) -> ListTasksResponse:
    return ListTasksResponse(tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=page.total)


class Operations:
    """What can be asked of the front door. All of it raises A2AError and, for what is no matter of the protocol,
    TurnwiseError.
    """

    def __init__(self, front: Front) -> None:
        self._front, self._pushes = front, PushConfigs(front)

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """The task, when it is over or waits for the sender, or at once if that is wanted; or the answer, from an agent that
        answers without one.
        """
        sent, telling = await self._sent(params, context, streaming=params.configuration.return_immediately)
        if not isinstance(sent, SentMessage):
            return await telling.task(sent)
        if params.configuration.return_immediately:
            return await telling.task(telling.now(sent))
        return await telling.answer(sent)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamItem]:
        """The task, then its updates, until it is over or waits; or the answer, from an agent that answers without a task."""
        sent, telling = await self._sent(params, context, streaming=True)
        if not isinstance(sent, SentMessage):
            yield await telling.task(sent)
            return
        async for told in telling.stream(sent):
            yield told

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """The task as it is now."""
        asking, history = operation_request(context), history_of(params)
        record = await find_task(self._front, asking, params.id)
        return await TaskStream(self._front, asking, record.name, history).task(record)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """The tasks of a user, those that changed last first."""
        return await list_tasks(self._front, operation_request(context), params)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Stops the task, wherever it runs, takes it out of the line, or ends what it waits for."""
        asking = operation_request(context)
        record = await find_task(self._front, asking, params.id, to="invocations:cancel")
        name, caller, user = record.name, asking.caller, user_of_task(asking, record.name)
        if record.state(asking.view) not in FINAL_STATES and record.events:
            await self._front.invocations.cancel(caller, name.session, record.events[0].invocation_id, user)
        elif record.standing == "queued":
            await self._front.threads.cancel(caller, name.session, name.message, user)
        else:
            raise TaskNotCancelableError("The task is over.")
        record = await find_task(self._front, asking, params.id, to="invocations:cancel")
        if record.state(asking.view) != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError("The task came to its end before it could be stopped.")
        return await TaskStream(self._front, asking, name).task(record)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamItem]:
        """The task as it is now, then its updates, until it is over or waits."""
        asking = operation_request(context)
        record = await find_task(self._front, asking, params.id)
        if record.state(asking.view) in FINAL_STATES:
            raise UnsupportedOperationError("The task is over: nothing more comes. Get it as it is.")
        async for told in TaskStream(self._front, asking, record.name).follow(record):
            yield told

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Has somebody told of the task's updates."""
        return await self._pushes.create(operation_request(context), params)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Who is told, by the id of that."""
        return await self._pushes.get(operation_request(context), params)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """All who are told of the task's updates."""
        return await self._pushes.list(operation_request(context), params)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """No longer has somebody told. Idempotent."""
        await self._pushes.delete(operation_request(context), params)

    async def on_get_extended_agent_card(self, params: GetExtendedAgentCardRequest, context: ServerCallContext) -> AgentCard:
        """The card with all agents that the caller reaches."""
        asking = operation_request(context)
        return extended_card(self._front, asking.caller, asking.base)

    async def _sent(
        self, params: SendMessageRequest, context: ServerCallContext, *, streaming: bool
    ) -> tuple[SentMessage | TaskRecord, TaskStream]:
        given, wanted = IncomingMessage(params), params.configuration
        asking, history = operation_request(context).for_user(given.user), history_of(wanted)
        push = await self._pushes.requested(asking, params)
        sent = await send_message(self._front, asking, params, given, streaming=streaming)
        if push is not None and isinstance(sent, SentMessage):
            await self._pushes.keep(asking, sent.name, push, sent.before)
        modes = wanted.accepted_output_modes
        return sent, TaskStream(self._front, asking, sent.name, history, modes, to="messages:write")
