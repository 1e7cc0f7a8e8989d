"""Who is to be notified of a task, as the protocol's operations set it up."""

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

from turnwise.facts.callers import Permission
from turnwise.facts.events import Event
from turnwise.facts.pushes import PushConfig
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.a2a.lookup import find_task, user_of_task
from turnwise.gateway.a2a.messages import invalid_field
from turnwise.gateway.a2a.push.address_guard import AddressGuard
from turnwise.gateway.a2a.request import OperationRequest
from turnwise.gateway.front import Front
from turnwise.gateway.shared.packed_ids import digest, pack_ids, unpack_ids

FIELD = "task_push_notification_config"
_TO: Permission = "messages:write"


class PushConfigs:
    """Notifications of tasks, for whoever may send messages to them. It raises A2AError and TurnwiseError.

    guard: which URLs may be notified; None = as the configuration has it.
    """

    def __init__(self, front: Front, guard: AddressGuard | None = None) -> None:
        self._front = front
        self._guard = guard or AddressGuard(private=front.config.protocols.a2a.private_pushes)

    async def create(self, asking: OperationRequest, params: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Keeps it, in place of one with the same id; what becomes of the task from now on is told. The answer alone holds the
        credentials.
        """
        name = await self._name(asking, params.task_id)
        config = await self._checked(asking, params)
        kept = await self._put(asking, name, config, after=None)
        return _wire_config(kept, name, credentials=kept.credentials)

    async def get(self, asking: OperationRequest, params: GetTaskPushNotificationConfigRequest) -> TaskPushNotificationConfig:
        """The one of that id."""
        found = await self._found(asking, name := await self._name(asking, params.task_id))
        config = next((config for config in found if config.id == params.id), None)
        if config is None:
            raise TaskNotFoundError("There is no such notification.")
        return _wire_config(config, name)

    async def list(
        self, asking: OperationRequest, params: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """All of the task, a page at a time, by their ids."""
        found = await self._found(asking, name := await self._name(asking, params.task_id))
        if params.page_size < 0:
            raise invalid_field("pageSize", "It is below 0.")
        after = unpack_ids(params.page_token, 1) if params.page_token else [""]
        if after is None:
            raise invalid_field("pageToken", "It is no token of this list.", fix="Send a nextPageToken as it came, or none.")
        left = [config for config in found if config.id > after[0]]
        page = left[: params.page_size or None]
        token = pack_ids(page[-1].id) if len(page) < len(left) else ""
        return ListTaskPushNotificationConfigsResponse(
            configs=[_wire_config(config, name) for config in page], next_page_token=token
        )

    async def delete(self, asking: OperationRequest, params: DeleteTaskPushNotificationConfigRequest) -> None:
        """Tells him no more. Idempotent."""
        name = await self._name(asking, params.task_id)
        await self._front.pushes.remove(asking.caller, name.session, name.message, params.id, user_of_task(asking, name))

    async def requested(self, asking: OperationRequest, request: SendMessageRequest) -> PushConfig | None:
        """What is to be kept for a message that is yet to be sent; None when nothing is."""
        if not request.configuration.HasField(FIELD):
            return None
        self._check_supported()
        config = await self._checked(asking, request.configuration.task_push_notification_config)
        # A repeated message is the same one, and so is what came with it.
        id_ = config.id or f"push-{digest(request.message.message_id)}"
        return config.model_copy(update={"id": id_})

    async def keep(self, asking: OperationRequest, name: TaskId, config: PushConfig, before: Sequence[Event]) -> None:
        """Keeps what came with a message of that task: all is told but what was there before."""
        await self._put(asking, name, config, after=max((event.sequence or 0 for event in before), default=0))

    async def _put(self, asking: OperationRequest, name: TaskId, config: PushConfig, *, after: int | None) -> PushConfig:
        user = user_of_task(asking, name)
        return await self._front.pushes.put(asking.caller, name.session, name.message, config, user, after=after)

    async def _found(self, asking: OperationRequest, name: TaskId) -> Sequence[PushConfig]:
        return await self._front.pushes.list(asking.caller, name.session, name.message, user_of_task(asking, name))

    async def _name(self, asking: OperationRequest, task_id: str) -> TaskId:
        self._check_supported()
        return (await find_task(self._front, asking, task_id, to=_TO)).name

    async def _checked(self, asking: OperationRequest, given: TaskPushNotificationConfig) -> PushConfig:
        auth = given.authentication
        if auth.credentials and not auth.scheme:
            raise invalid_field(
                "authentication.scheme", "There are credentials, and no scheme.", fix="Send its name, such as Bearer."
            )
        await self._guard.check(given.url)
        return PushConfig(
            id=given.id,
            url=given.url,
            token=given.token,
            scheme=auth.scheme,
            credentials=auth.credentials,
            caller=asking.caller,
            base=asking.base,
        )

    def _check_supported(self) -> None:
        if self._front.pushes.kept is None:
            raise PushNotificationNotSupportedError("The session store keeps no notifications.")


def _wire_config(config: PushConfig, name: TaskId, *, credentials: str = "") -> TaskPushNotificationConfig:
    shown = TaskPushNotificationConfig(id=config.id, task_id=name.id, url=config.url, token=config.token)
    if config.scheme:
        shown.authentication.CopyFrom(AuthenticationInfo(scheme=config.scheme, credentials=credentials))
    return shown
