"""The A2A routes: the HTTP binding (`/a2a/rest`), JSON-RPC (`/a2a`), and the public agent card."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime, parsedate_to_datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, MethodNotFoundError
from a2a.utils.proto_utils import parse_params
from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from google.protobuf.json_format import ParseError
from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.tree import AgentTree
from turnwise.gateway.a2a.calls import (
    METHODS,
    Method,
    base_of,
    call_context,
    check_content,
    check_protocol_version,
    refusal_for,
    result_json,
    stream_response,
)
from turnwise.gateway.a2a.card import public_card
from turnwise.gateway.a2a.errors import Refusal, rest_response, rpc_response
from turnwise.gateway.a2a.json_values import message_json
from turnwise.gateway.a2a.messages import invalid_field
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.parsing import A2A_JSON, PLAIN_JSON, check_state, json_of, message_of, object_of
from turnwise.gateway.front import Front, TheFront, UserServices
from turnwise.gateway.shared.ranges import etag_of, is_known

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
