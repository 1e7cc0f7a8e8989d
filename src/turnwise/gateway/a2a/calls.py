"""What both bindings do with a request: who asks, in which version; and streams as they are written."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a import types as wire
from a2a.server.context import ServerCallContext
from a2a.utils.errors import A2AError
from a2a.utils.proto_utils import to_stream_response
from fastapi import Request
from google.protobuf.message import Message
from starlette.responses import Response

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.a2a.errors import Refusal, protocol_refusal, refusal_of
from turnwise.gateway.a2a.json_values import message_json, task_page_json
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.parsing import check_type
from turnwise.gateway.a2a.request import VERSION_HEADER, OperationRequest, check_version, context_of
from turnwise.gateway.a2a.stream import StreamItem
from turnwise.gateway.front import Front, redactor_of
from turnwise.gateway.problems import problem_of, request_id_of
from turnwise.gateway.sse import event_stream


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


Encode = Callable[[dict[str, Any] | Refusal], bytes]


def call_context(request: Request, front: Front, caller: Caller, user: str | None) -> ServerCallContext:
    """The context of the operation that the request asks for."""
    return context_of(OperationRequest(caller, redactor_of(request), user, base_of(request, front)))


def base_of(request: Request, front: Front) -> str:
    """The URL of this gateway for who asks, without a slash at the end."""
    return front.config.public_url or str(request.base_url).rstrip("/")


def check_content(request: Request) -> None:
    """Whether its body can be read. ContentTypeNotSupportedError."""
    check_type(request.headers.get("content-type"))


def check_protocol_version(request: Request) -> None:
    """Whether it is in a version that is spoken here. VersionNotSupportedError."""
    check_version(request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER))


def refusal_for(error: Exception, request: Request, front: Front) -> Refusal:
    """What was raised, as an error of the wire; it is counted. Raises what is no error of ours or of the protocol's."""
    if isinstance(error, TurnwiseError):
        problem = problem_of(error, request)
        refusal, code = refusal_of(problem), problem.code
    elif isinstance(error, A2AError):
        refusal, code = protocol_refusal(error, request_id_of(request)), f"a2a.{type(error).__name__}"
    else:
        raise error
    if front.metrics is not None:
        front.metrics.count_error(code)
    return refusal


def result_json(told: Message | None, method: Method) -> dict[str, Any] | None:
    """An answer as JSON. None stays None."""
    if told is None:
        return None
    if method.params is wire.SendMessageRequest:
        field = "task" if isinstance(told, wire.Task) else "message"
        return {field: message_json(told)}
    body: dict[str, Any] = task_page_json(told) if isinstance(told, wire.ListTasksResponse) else message_json(told)
    return body


async def stream_response(
    told: AsyncGenerator[StreamItem], request: Request, front: Front, write: Encode, *, again: str
) -> Response:
    """The response that writes what is told; what is raised before the first of it is raised here. again: what to ask for to
    come again when this process is stopped.
    """
    first = await anext(told)
    closing = Closing("This process is being stopped.", fix=f"Ask again, for {again}.")
    hint = write(refusal_of(problem_of(closing, request)))
    items = _json_items(first, told, request, front)
    return event_stream(items, write, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)


async def _json_items(
    first: StreamItem, rest: AsyncGenerator[StreamItem], request: Request, front: Front
) -> AsyncIterator[dict[str, Any] | Refusal]:
    async with aclosing(rest):
        yield message_json(to_stream_response(first))
        try:
            async for told in rest:
                yield message_json(to_stream_response(told))
        except (A2AError, TurnwiseError) as error:
            yield refusal_for(error, request, front)
