"""Notifications as A2A's conformance kit asks for them, with the SDK's own client over real sockets."""

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    StreamResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import A2AError
from a2a_kit_play import BINDINGS, RUN, kit
from google.protobuf.json_format import ParseDict
from push_play import receiving
from runner_play import soon

ID = f"tck-push-{RUN}"
pytestmark = pytest.mark.parametrize("binding", BINDINGS)


async def test_a_notification_is_set_up_found_listed_and_removed_twice(binding: str) -> None:
    async with kit(binding) as peer, receiving() as receiver:
        assert peer.card.capabilities.push_notifications
        task = await peer.task("tck-complete-task")
        wanted = TaskPushNotificationConfig(id=ID, task_id=task.id, url=receiver.url())
        made = await peer.client.create_task_push_notification_config(wanted)
        assert (made.id, made.task_id, made.url) == (ID, task.id, wanted.url)
        by_id = GetTaskPushNotificationConfigRequest(task_id=task.id, id=ID)
        assert (await peer.client.get_task_push_notification_config(by_id)).url == wanted.url
        listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert [each.id for each in (await peer.client.list_task_push_notification_configs(listing)).configs] == [ID]
        for _ in range(2):
            gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=ID)
            await peer.client.delete_task_push_notification_config(gone)
        with pytest.raises(A2AError):
            await peer.client.get_task_push_notification_config(by_id)
        assert list((await peer.client.list_task_push_notification_configs(listing)).configs) == []


async def test_who_came_with_the_message_is_told_of_the_end_with_his_credentials(binding: str) -> None:
    async with kit(binding) as peer, receiving() as receiver:
        auth = AuthenticationInfo(scheme="Bearer", credentials=f"tck-test-token-{RUN}")
        wanted = TaskPushNotificationConfig(id=ID, url=receiver.url(), authentication=auth)
        task = await peer.task("tck-input-required", configuration={"task_push_notification_config": wanted})
        await peer.task("tck-complete-task", task_id=task.id)
        told = await soon(receiver.until_over())
        assert told[-1] == "TASK_STATE_COMPLETED"
        for got in receiver.got:
            assert got.headers["authorization"] == f"Bearer tck-test-token-{RUN}"
            ParseDict(got.body, StreamResponse())
