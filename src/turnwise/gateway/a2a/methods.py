"""The protocol's methods: what each asks for, and with what."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a import types as wire

from turnwise.gateway.a2a.operations import Operations


class Method(NamedTuple):
    """A method: the operation that it asks for, with which message, and whether its answer is a stream."""

    operation: Callable[..., Any]
    params: type[Any]
    streamed: bool = False


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "SendMessage": Method(Operations.on_message_send, wire.SendMessageRequest),
        "SendStreamingMessage": Method(Operations.on_message_send_stream, wire.SendMessageRequest, streamed=True),
        "GetTask": Method(Operations.on_get_task, wire.GetTaskRequest),
        "ListTasks": Method(Operations.on_list_tasks, wire.ListTasksRequest),
        "CancelTask": Method(Operations.on_cancel_task, wire.CancelTaskRequest),
        "SubscribeToTask": Method(Operations.on_subscribe_to_task, wire.SubscribeToTaskRequest, streamed=True),
        "CreateTaskPushNotificationConfig": Method(
            Operations.on_create_task_push_notification_config, wire.TaskPushNotificationConfig
        ),
        "GetTaskPushNotificationConfig": Method(
            Operations.on_get_task_push_notification_config, wire.GetTaskPushNotificationConfigRequest
        ),
        "ListTaskPushNotificationConfigs": Method(
            Operations.on_list_task_push_notification_configs, wire.ListTaskPushNotificationConfigsRequest
        ),
        "DeleteTaskPushNotificationConfig": Method(
            Operations.on_delete_task_push_notification_config, wire.DeleteTaskPushNotificationConfigRequest
        ),
        "GetExtendedAgentCard": Method(Operations.on_get_extended_agent_card, wire.GetExtendedAgentCardRequest),
    }
)
