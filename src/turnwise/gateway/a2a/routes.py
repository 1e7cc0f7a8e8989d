"""The A2A routes: the HTTP binding (`/a2a/rest`), JSON-RPC (`/a2a`), and the public agent card.

Both bindings share the table of methods, the call context, the mapping of errors, and streamed responses.
"""

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from email.utils import format_datetime, parsedate_to_datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a import types as wire
from a2a.server.context import ServerCallContext
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, MethodNotFoundError
from a2a.utils.proto_utils import parse_params, to_stream_response
from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from google.protobuf.json_format import ParseError
from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.tree import AgentTree
from turnwise.gateway.a2a.card import public_card
from turnwise.gateway.a2a.errors import Refusal, protocol_refusal, refusal_of, rest_response, rpc_response
from turnwise.gateway.a2a.messages import (
    A2A_JSON,
    PLAIN_JSON,
    check_state,
    check_type,
    invalid_field,
    json_of,
    message_json,
    message_of,
    object_of,
    task_page_json,
)
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.request import VERSION_HEADER, OperationRequest, check_version, context_of
from turnwise.gateway.a2a.stream import StreamItem
from turnwise.gateway.front import Front, TheFront, UserServices, redactor_of
from turnwise.gateway.problems import problem_of, request_id_of
from turnwise.gateway.services import Services
from turnwise.gateway.shared.ranges import etag_of, is_known
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


STATE_PREFIX = "TASK_STATE_"
JSON_RPC_VERSION = "2.0"
CallId = str | int | float | None
CARD_PATH = "/.well-known/agent-card.json"
LAST_MODIFIED = SystemIssuer().now().replace(microsecond=0)
"""Agents and settings change only with the process."""
_CACHED_CARD = "a2a_card"


class Path(NamedTuple):
    """A route of the HTTP binding."""

    verb: str
    """The HTTP method."""
    path: str
    method: str
    """The JSON-RPC name of the operation."""
    fields: Mapping[str, str] = MappingProxyType({})
    """The message fields that the path sets, by path parameter."""


_TASK, _TASKS = MappingProxyType({"task_id": "id"}), MappingProxyType({"task_id": "task_id"})
_PUSH = MappingProxyType({"task_id": "task_id", "push_id": "id"})
PATHS = (
    Path("POST", "/message:send", "SendMessage"),
    Path("POST", "/message:stream", "SendStreamingMessage"),
    Path("GET", "/tasks", "ListTasks"),
    Path("POST", "/tasks/{task_id}:cancel", "CancelTask", _TASK),
    Path("POST", "/tasks/{task_id}:subscribe", "SubscribeToTask", _TASK),
    Path("GET", "/tasks/{task_id}:subscribe", "SubscribeToTask", _TASK),
    Path("POST", "/tasks/{task_id}/pushNotificationConfigs", "CreateTaskPushNotificationConfig", _TASKS),
    Path("GET", "/tasks/{task_id}/pushNotificationConfigs", "ListTaskPushNotificationConfigs", _TASKS),
    Path("GET", "/tasks/{task_id}/pushNotificationConfigs/{push_id}", "GetTaskPushNotificationConfig", _PUSH),
    Path("DELETE", "/tasks/{task_id}/pushNotificationConfigs/{push_id}", "DeleteTaskPushNotificationConfig", _PUSH),
    Path("GET", "/tasks/{task_id}", "GetTask", _TASK),
    Path("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
)
"""More specific paths come first."""


def _endpoint(path: Path) -> Callable[..., Awaitable[Response]]:
    """Returns the route function that answers this path of the HTTP binding."""
    method = METHODS[path.method]

    async def answer(request: Request, front: TheFront, services: UserServices) -> Response:
        try:
            check_content(request)
            check_protocol_version(request)
            params = await _params(request, method, {field: request.path_params[name] for name, field in path.fields.items()})
            outcome = method.operation(Operations(front), params, call_context(request, front, services))
            if method.streamed:
                return await stream_response(outcome, request, front, _encode_sse, retry_with=":subscribe")
            body = json.dumps(result_json(await outcome, method) or {})
            return Response(body, media_type=response_type(request.headers.get("accept", "")))
        except (A2AError, TurnwiseError) as error:
            return rest_response(refusal_for(error, request, front))

    return answer


async def _params(request: Request, method: Method, fields: dict[str, str]) -> Any:
    """Reads the parameters of a call: from the body of a POST, else from query and path."""
    if request.method == "POST":
        return message_of(object_of(await request.body()) | fields, method.params)
    message, query = method.params(), _with_states(request.query_params)
    try:
        parse_params(query, message)
    except (ParseError, ValueError, TypeError, OverflowError):
        raise invalid_field("query", "A value has the wrong type.") from None
    check_state(query, message)
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def _with_states(query: QueryParams) -> QueryParams:
    """Expands short state names in the query: `working`, `input-required`."""
    return QueryParams([(name, _state(value) if name == "status" else value) for name, value in query.multi_items()])


def _state(text: str) -> str:
    return text if text.startswith(STATE_PREFIX) else STATE_PREFIX + text.upper().replace("-", "_")


def response_type(accepted: str) -> str:
    """Chooses the response's media type by the Accept header: the protocol's type unless plain JSON has a higher weight."""
    weights = dict(map(_media_range, accepted.lower().split(",")))
    a2a_weight = weights.get(A2A_JSON, weights.get("application/*", weights.get("*/*", 0.0)))
    return PLAIN_JSON if weights.get(PLAIN_JSON, 0.0) > a2a_weight else A2A_JSON


def _media_range(media_range: str) -> tuple[str, float]:
    """Splits a media range of an Accept header into its type and its weight `q`; an invalid weight is 0."""
    kind, _, parameters = media_range.partition(";")
    weight = next(
        (parameter.partition("=")[2] for parameter in parameters.split(";") if parameter.strip().startswith("q=")), "1"
    )
    try:
        return kind.strip(), float(weight)
    except ValueError:
        return kind.strip(), 0.0


def _encode_sse(item: dict[str, Any] | Refusal) -> bytes:
    if isinstance(item, Refusal):
        return format_sse_event(data_str=json.dumps(item.as_rest), event="error")
    return format_sse_event(data_str=json.dumps(item))


rest_router = APIRouter(include_in_schema=False)
for _path in PATHS:
    rest_router.add_api_route(_path.path, _endpoint(_path), methods=[_path.verb], name=_path.method)


rpc_router = APIRouter(include_in_schema=False)


@rpc_router.post("")
@rpc_router.post("/")
async def call(request: Request, front: TheFront, services: UserServices) -> Response:
    """Serves one JSON-RPC call, as a response or a stream."""
    id_: CallId = None
    try:
        check_content(request)
        body = json_of(await request.body())
        id_ = _id_of(body)
        check_protocol_version(request)
        method, params = _method_and_params(body)
        outcome = method.operation(Operations(front), message_of(params, method.params), call_context(request, front, services))
        if method.streamed:
            return await stream_response(outcome, request, front, _rpc_encoder(id_), retry_with="SubscribeToTask")
        return JSONResponse({"jsonrpc": JSON_RPC_VERSION, "id": id_, "result": result_json(await outcome, method)})
    except (A2AError, TurnwiseError) as error:
        return rpc_response(refusal_for(error, request, front), id_)


def _id_of(body: Any) -> CallId:
    """Returns the call's id. Raises InvalidRequestError if the body is not a single call."""
    if isinstance(body, list):
        raise InvalidRequestError("Batch calls are not supported. Send one call a request.")
    if not isinstance(body, dict):
        raise InvalidRequestError("The body is not a JSON object.")
    id_ = body.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int | float | None) or id_ in (math.inf, -math.inf):
        raise InvalidRequestError("The id is neither a string nor a number.")
    return id_


def _method_and_params(body: dict[str, Any]) -> tuple[Method, dict[str, Any]]:
    """Returns the method and the parameters of a JSON-RPC call. Raises the JSON-RPC error for an invalid one."""
    if body.get("jsonrpc") != JSON_RPC_VERSION:
        raise InvalidRequestError(f"The call is not JSON-RPC {JSON_RPC_VERSION}: check 'jsonrpc'.")
    name, params = body.get("method"), body.get("params")
    if not isinstance(name, str) or not name:
        raise InvalidRequestError("The method is not a string.")
    if name not in METHODS:
        raise MethodNotFoundError(f"There is no method {name[:64]!r}.")
    if params is not None and not isinstance(params, dict):
        raise InvalidParamsError("The params are not an object.")
    return METHODS[name], params or {}


def _rpc_encoder(id_: CallId) -> Callable[[dict[str, Any] | Refusal], bytes]:
    """Returns a function that encodes items of a JSON-RPC stream as server-sent events."""

    def write(item: dict[str, Any] | Refusal) -> bytes:
        if isinstance(item, Refusal):
            return format_sse_event(
                data_str=json.dumps({"jsonrpc": JSON_RPC_VERSION, "id": id_, "error": item.as_rpc}), event="error"
            )
        return format_sse_event(data_str=json.dumps({"jsonrpc": JSON_RPC_VERSION, "id": id_, "result": item}))

    return write


card_router = APIRouter(include_in_schema=False)


@card_router.get(CARD_PATH)
@card_router.head(CARD_PATH)
async def get_card(request: Request, front: TheFront) -> Response:
    """Returns the public agent card, or 304 if the client has the current one."""
    body = json.dumps(_card(request, front), sort_keys=True).encode()
    headers = {
        "Cache-Control": f"public, max-age={front.config.protocols.a2a.card_seconds}",
        "ETag": etag_of(body),
        "Last-Modified": format_datetime(LAST_MODIFIED, usegmt=True),
    }
    if front.config.public_url is None:
        headers["Vary"] = "Host"
    if _is_not_modified(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def _card(request: Request, front: Front) -> dict[str, Any]:
    """Returns the card with URLs for this request. The rest is built once for each set of agents, because anyone may ask and
    there may be thousands of agents.
    """
    state, tree = request.app.state, front.runner.tree
    known: tuple[AgentTree, dict[str, Any]] | None = getattr(state, _CACHED_CARD, None)
    if known is None or known[0] is not tree:
        known = tree, message_json(public_card(front, ""))
        setattr(state, _CACHED_CARD, known)
    card = known[1]
    base, interfaces = base_of(request, front), card["supportedInterfaces"]
    return card | {"supportedInterfaces": [interface | {"url": base + interface["url"]} for interface in interfaces]}


def _is_not_modified(request: Request, etag: str) -> bool:
    """Returns whether the client's cached copy is current. The ETag takes precedence over the date."""
    etags, since = request.headers.get("if-none-match"), request.headers.get("if-modified-since")
    if etags is not None:
        return is_known(etags, etag)
    try:
        return since is not None and parsedate_to_datetime(since) >= LAST_MODIFIED
    except (ValueError, TypeError):  # no date, or one without a zone
        return False
