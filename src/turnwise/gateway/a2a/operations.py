"""The A2A operations, independent of the binding, and the push notification configs of tasks.

The methods have the signatures of the SDK's `RequestHandler`, so SDK layers for such a handler also fit on top of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC
from types import MappingProxyType

from a2a.server.context import ServerCallContext
from a2a.types import (
    AgentCard,
    AuthenticationInfo,
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
from a2a.utils.errors import (
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from turnwise.access.address_guard import AddressGuard
from turnwise.facts.callers import Permission
from turnwise.facts.events import LIMIT, Event
from turnwise.gateway.a2a.card import extended_card
from turnwise.gateway.a2a.messages import MOST_INLINE, IncomingMessage, invalid_field
from turnwise.gateway.a2a.request import OperationRequest, TaskId, operation_request
from turnwise.gateway.a2a.start import SentMessage, send_message
from turnwise.gateway.a2a.stream import StreamItem, TaskStream, history_of
from turnwise.gateway.a2a.tasks import FINAL_STATES, TaskRecord, find_task, services_of_task
from turnwise.gateway.front import Front
from turnwise.gateway.services.invocations import Task as ListedTask, TaskPage
from turnwise.gateway.shared.packed_ids import digest, pack_ids, unpack_ids
from turnwise.ports.pushes import PushConfig

PAGE, MOST_PAGE = 50, 100

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
"""The invocation statuses that a task state covers. Some map to two states, so tasks are filtered by state again after loading.
"""


LOADED_AT_ONCE = 4
"""The most tasks of a page that are loaded at the same time."""


async def list_tasks(front: Front, operation: OperationRequest, params: ListTasksRequest) -> ListTasksResponse:
    """Returns a page of a user's tasks, most recently changed first. Raises RequestInvalid, CursorInvalid."""
    size = params.page_size if params.HasField("page_size") else PAGE
    if not 1 <= size <= MOST_PAGE:
        raise invalid_field("pageSize", f"The value is not between 1 and {MOST_PAGE}.")
    state = params.status
    if state and state not in INVOCATION_STATUSES:
        raise invalid_field("status", "Unknown task state.")
    history = history_of(params) or 0
    since = params.status_timestamp_after.ToDatetime(UTC) if params.HasField("status_timestamp_after") else None
    page = await operation.services.tasks.page(
        session=params.context_id or None,
        states=INVOCATION_STATUSES[state] if state else None,
        since=since,
        after=params.page_token or None,
        limit=size,
    )
    # The page shares the bytes of files. Few tasks are loaded at once, because each may hold large files.
    inline, places = MOST_INLINE // max(1, len(page.items)), asyncio.Semaphore(LOADED_AT_ONCE)

    async def load(listed: ListedTask) -> Task | None:
        async with places:
            return await _task(front, operation, listed, params, history, inline)

    tasks = await asyncio.gather(*map(load, page.items))
    return _response([task for task in tasks if task is not None and state in (0, task.status.state)], page, size)


async def _task(
    front: Front, operation: OperationRequest, listed: ListedTask, params: ListTasksRequest, history: int, inline: int
) -> Task | None:
    """Loads one task with at most `inline` bytes of files; None if it was removed since the page was read."""
    name = TaskId(listed.session, listed.message_id, None if operation.user == operation.caller.user else operation.user)
    try:
        record = await find_task(operation, name.id)
    except TaskNotFoundError:
        return None
    return await TaskStream(front, operation, name, history).task(record, artifacts=params.include_artifacts, inline=inline)


def _response(tasks: list[Task], page: TaskPage, size: int) -> ListTasksResponse:
    return ListTasksResponse(tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=page.total)


class Operations:
    """The operations of the protocol. They raise A2AError, and TurnwiseError for problems that A2A does not define."""

    def __init__(self, front: Front) -> None:
        self._front, self._pushes = front, PushConfigs(front)

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Sends a message and returns the task once it is over or needs input; at once with `return_immediately`.

        An agent that answers without a task gives a message instead.
        """
        sent, task_stream = await self._send(params, context, streaming=params.configuration.return_immediately)
        if not isinstance(sent, SentMessage):
            return await task_stream.task(sent)
        if params.configuration.return_immediately:
            return await task_stream.task(task_stream.now(sent))
        return await task_stream.answer(sent)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamItem]:
        """Sends a message and yields the task, then its updates until it is over or needs input.

        An agent that answers without a task gives one message instead.
        """
        sent, task_stream = await self._send(params, context, streaming=True)
        if not isinstance(sent, SentMessage):
            yield await task_stream.task(sent)
            return
        async for item in task_stream.stream(sent):
            yield item

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Returns the current task."""
        operation, history = operation_request(context), history_of(params)
        record = await find_task(operation, params.id)
        return await TaskStream(self._front, operation, record.name, history).task(record)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Returns a page of a user's tasks, most recently changed first."""
        return await list_tasks(self._front, operation_request(context), params)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancels a task: stops it in any process, removes it from the queue, or ends its wait.

        Raises:
            TaskNotCancelableError: The task is over, or ended before it could be stopped.
        """
        operation = operation_request(context)
        record = await find_task(operation, params.id, to="invocations:cancel")
        name, services = record.name, services_of_task(operation, record.name)
        if record.state(operation.view) not in FINAL_STATES and record.events:
            await services.invocations.cancel(name.session, record.events[0].invocation_id)
        elif record.status == "queued":
            await services.threads.cancel(name.session, name.message)
        else:
            raise TaskNotCancelableError("The task is over.")
        record = await find_task(operation, params.id, to="invocations:cancel")
        if record.state(operation.view) != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError("The task ended before it could be cancelled.")
        return await TaskStream(self._front, operation, name).task(record)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamItem]:
        """Yields the current task, then its updates until it is over. Raises UnsupportedOperationError for a finished task."""
        operation = operation_request(context)
        record = await find_task(operation, params.id)
        if record.state(operation.view) in FINAL_STATES:
            raise UnsupportedOperationError("The task is over and has no more updates. Use GetTask.")
        async for item in TaskStream(self._front, operation, record.name).follow(record):
            yield item

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Subscribes a URL to the task's updates."""
        return await self._pushes.create(operation_request(context), params)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Returns one push notification config of the task."""
        return await self._pushes.get(operation_request(context), params)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Returns the task's push notification configs, a page at a time."""
        return await self._pushes.list(operation_request(context), params)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Deletes a push notification config. Idempotent."""
        await self._pushes.delete(operation_request(context), params)

    async def on_get_extended_agent_card(self, params: GetExtendedAgentCardRequest, context: ServerCallContext) -> AgentCard:
        """Returns the card of all agents that the caller may reach."""
        operation = operation_request(context)
        return extended_card(self._front, operation.services, operation.base)

    async def _send(
        self, params: SendMessageRequest, context: ServerCallContext, *, streaming: bool
    ) -> tuple[SentMessage | TaskRecord, TaskStream]:
        """Sends the message and stores its push config. Returns the message, or the task that a block ended, and a stream."""
        incoming, configuration = IncomingMessage(params), params.configuration
        operation, history = operation_request(context).for_user(incoming.user), history_of(configuration)
        push = await self._pushes.requested(operation, params)
        sent = await send_message(self._front, operation, params, incoming, streaming=streaming)
        if push is not None and isinstance(sent, SentMessage):
            await self._pushes.store(operation, sent.name, push, sent.before)
        modes = configuration.accepted_output_modes
        return sent, TaskStream(self._front, operation, sent.name, history, modes, to="messages:write")


_PUSH_FIELD = "task_push_notification_config"
_PUSH_PERMISSION: Permission = "messages:write"


class PushConfigs:
    """Manages the push notification configs of tasks, for callers that may send messages. Raises A2AError and TurnwiseError.

    Args:
        guard: Checks URLs; None = as configured.
    """

    def __init__(self, front: Front, guard: AddressGuard | None = None) -> None:
        self._front = front
        self._guard = guard or AddressGuard(private=front.config.protocols.a2a.private_pushes)

    async def create(self, operation: OperationRequest, params: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Stores a config, replacing one with the same id, and notifies of changes from now on. Only this response returns the
        credentials.
        """
        name = await self._task(operation, params.task_id)
        config = await self._validated(operation, params)
        stored = await self._put(operation, name, config, after=None)
        return _wire_config(stored, name, credentials=stored.credentials)

    async def get(
        self, operation: OperationRequest, params: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        """Returns the config with this id. Raises TaskNotFoundError."""
        configs = await self._stored(operation, name := await self._task(operation, params.task_id))
        config = next((config for config in configs if config.id == params.id), None)
        if config is None:
            raise TaskNotFoundError("There is no such push notification config.")
        return _wire_config(config, name)

    async def list(
        self, operation: OperationRequest, params: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """Returns a page of the task's configs, ordered by id."""
        configs = await self._stored(operation, name := await self._task(operation, params.task_id))
        if params.page_size < 0:
            raise invalid_field("pageSize", "The value is negative.")
        after = unpack_ids(params.page_token, 1) if params.page_token else [""]
        if after is None:
            raise invalid_field(
                "pageToken", "The page token is not valid for this list.", fix="Send a nextPageToken unchanged, or none."
            )
        remaining = [config for config in configs if config.id > after[0]]
        page = remaining[: params.page_size or None]
        token = pack_ids(page[-1].id) if len(page) < len(remaining) else ""
        return ListTaskPushNotificationConfigsResponse(
            configs=[_wire_config(config, name) for config in page], next_page_token=token
        )

    async def delete(self, operation: OperationRequest, params: DeleteTaskPushNotificationConfigRequest) -> None:
        """Deletes a config. Idempotent."""
        name = await self._task(operation, params.task_id)
        await services_of_task(operation, name).pushes.remove(name.session, name.message, params.id)

    async def requested(self, operation: OperationRequest, request: SendMessageRequest) -> PushConfig | None:
        """Returns the config that a message to be sent carries, validated but not stored; None if it has none."""
        if not request.configuration.HasField(_PUSH_FIELD):
            return None
        self._check_supported()
        config = await self._validated(operation, request.configuration.task_push_notification_config)
        # Derived from the message id, so that a repeated message replaces its config.
        id_ = config.id or f"push-{digest(request.message.message_id)}"
        return config.replace(id=id_)

    async def store(self, operation: OperationRequest, name: TaskId, config: PushConfig, before: Sequence[Event]) -> None:
        """Stores the config that came with a message. It covers every event after `before`."""
        await self._put(operation, name, config, after=max((event.sequence or 0 for event in before), default=0))

    async def _put(self, operation: OperationRequest, name: TaskId, config: PushConfig, *, after: int | None) -> PushConfig:
        return await services_of_task(operation, name).pushes.put(name.session, name.message, config, after=after)

    async def _stored(self, operation: OperationRequest, name: TaskId) -> Sequence[PushConfig]:
        return await services_of_task(operation, name).pushes.list(name.session, name.message)

    async def _task(self, operation: OperationRequest, task_id: str) -> TaskId:
        self._check_supported()
        return (await find_task(operation, task_id, to=_PUSH_PERMISSION)).name

    async def _validated(self, operation: OperationRequest, wire_config: TaskPushNotificationConfig) -> PushConfig:
        """Returns the config as it is stored. Raises for credentials without a scheme, and for a refused address."""
        auth = wire_config.authentication
        if auth.credentials and not auth.scheme:
            raise invalid_field(
                "authentication.scheme", "The credentials have no scheme.", fix="Send its name, such as Bearer."
            )
        await self._guard.check(wire_config.url)
        return PushConfig(
            id=wire_config.id,
            url=wire_config.url,
            token=wire_config.token,
            scheme=auth.scheme,
            credentials=auth.credentials,
            caller=operation.caller,
            base=operation.base,
        )

    def _check_supported(self) -> None:
        if self._front.state.push_feed.kept is None:
            raise PushNotificationNotSupportedError("The session store does not support push notifications.")


def _wire_config(config: PushConfig, name: TaskId, *, credentials: str = "") -> TaskPushNotificationConfig:
    wire_config = TaskPushNotificationConfig(id=config.id, task_id=name.id, url=config.url, token=config.token)
    if config.scheme:
        wire_config.authentication.CopyFrom(AuthenticationInfo(scheme=config.scheme, credentials=credentials))
    return wire_config
