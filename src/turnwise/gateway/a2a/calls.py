"""Request handling shared by both A2A bindings: the method table, the call context, error mapping, and streamed responses."""

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

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.a2a.errors import Refusal, protocol_refusal, refusal_of
from turnwise.gateway.a2a.json_values import message_json, task_page_json
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.parsing import check_type
from turnwise.gateway.a2a.request import VERSION_HEADER, OperationRequest, check_version, context_of
from turnwise.gateway.a2a.stream import StreamItem
from turnwise.gateway.front import Front, redactor_of
from turnwise.gateway.problems import problem_of, request_id_of
from turnwise.gateway.services import Services
from turnwise.gateway.sse import event_stream


class Method(NamedTuple):
    """One protocol method."""

    operation: Callable[..., Any]
    """The method of `Operations` that serves it."""
    params: type[Any]
    """The protobuf message type of its parameters."""
    streamed: bool = False
    """True if the result is a stream."""


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
"""Every method by its JSON-RPC name."""


Encode = Callable[[dict[str, Any] | Refusal], bytes]
"""Encodes one stream item, or an error, as the bytes of a server-sent event."""


def call_context(request: Request, front: Front, services: Services) -> ServerCallContext:
    """Builds the SDK's call context for a request."""
    return context_of(OperationRequest(services, redactor_of(request), base_of(request, front)))


def base_of(request: Request, front: Front) -> str:
    """Returns this gateway's public URL, without a trailing slash. Falls back to the URL of the request."""
    return front.config.public_url or str(request.base_url).rstrip("/")


def check_content(request: Request) -> None:
    """Raises ContentTypeNotSupportedError unless the body is declared as JSON."""
    check_type(request.headers.get("content-type"))


def check_protocol_version(request: Request) -> None:
    """Raises VersionNotSupportedError unless the header or query names a supported protocol version."""
    check_version(request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER))


def refusal_for(error: Exception, request: Request, front: Front) -> Refusal:
    """Converts an exception to a protocol error and counts it in the metrics. Re-raises any other kind of exception."""
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


def result_json(result: Message | None, method: Method) -> dict[str, Any] | None:
    """Returns the result as JSON, in the shape that the method requires. None stays None."""
    if result is None:
        return None
    if method.params is wire.SendMessageRequest:
        field = "task" if isinstance(result, wire.Task) else "message"
        return {field: message_json(result)}
    body: dict[str, Any] = task_page_json(result) if isinstance(result, wire.ListTasksResponse) else message_json(result)
    return body


async def stream_response(
    items: AsyncGenerator[StreamItem], request: Request, front: Front, encode: Encode, *, retry_with: str
) -> Response:
    """Returns the server-sent event response for a stream of task updates.

    Waits for the first item, so an error before it is raised here and becomes the response's status.

    Args:
        items: The updates.
        encode: Encodes one item or error.
        retry_with: The operation that the shutdown message tells the client to call.
    """
    first = await anext(items)
    closing = Closing("This process is being stopped.", fix=f"Ask again, for {retry_with}.")
    hint = encode(refusal_of(problem_of(closing, request)))
    events = _json_items(first, items, request, front)
    return event_stream(events, encode, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)


async def _json_items(
    first: StreamItem, rest: AsyncGenerator[StreamItem], request: Request, front: Front
) -> AsyncIterator[dict[str, Any] | Refusal]:
    """Yields the stream's items as JSON. An error becomes the last item, a refusal."""
    async with aclosing(rest):
        yield message_json(to_stream_response(first))
        try:
            async for item in rest:
                yield message_json(to_stream_response(item))
        except (A2AError, TurnwiseError) as error:
            yield refusal_for(error, request, front)
