"""The push notification configs of tasks: create, read, list and delete."""

from collections.abc import Sequence

from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import PushNotificationNotSupportedError, TaskNotFoundError

from turnwise.access.address_guard import AddressGuard
from turnwise.facts.callers import Permission
from turnwise.facts.events import Event
from turnwise.gateway.a2a.lookup import find_task, services_of_task
from turnwise.gateway.a2a.messages import invalid_field
from turnwise.gateway.a2a.request import OperationRequest, TaskId
from turnwise.gateway.front import Front
from turnwise.gateway.shared.packed_ids import digest, pack_ids, unpack_ids
from turnwise.ports.pushes import PushConfig

FIELD = "task_push_notification_config"
_TO: Permission = "messages:write"


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
        if not request.configuration.HasField(FIELD):
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
        return (await find_task(operation, task_id, to=_TO)).name

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
