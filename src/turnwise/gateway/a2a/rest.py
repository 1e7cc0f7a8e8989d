"""The HTTP binding: the operations as paths below `/a2a/rest`."""

import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a.utils.errors import A2AError
from a2a.utils.proto_utils import parse_params
from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from google.protobuf.json_format import ParseError
from starlette.datastructures import QueryParams

from turnwise.facts.errors import TurnwiseError
from turnwise.gateway.a2a.calling import asked, check_content, check_spoken, refused, stream, written
from turnwise.gateway.a2a.incoming import refused as wrong
from turnwise.gateway.a2a.methods import METHODS, Method
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.reading import A2A_JSON, PLAIN_JSON, check_state, message_of, object_of
from turnwise.gateway.a2a.refusals import Refusal, rest_answer
from turnwise.gateway.front import TheCaller, TheFront
from turnwise.gateway.parameters import User

STATE = "TASK_STATE_"


class Path(NamedTuple):
    """A path: which method it asks for; fields: those of the message that stand in the path, by their names there."""

    verb: str
    path: str
    method: str
    fields: Mapping[str, str] = MappingProxyType({})


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
"""The more special ones first."""


def _endpoint(path: Path) -> Callable[..., Awaitable[Response]]:
    method = METHODS[path.method]

    async def answer(request: Request, front: TheFront, caller: TheCaller, user: User = None) -> Response:
        try:
            check_content(request)
            check_spoken(request)
            params = await _params(request, method, {field: request.path_params[name] for name, field in path.fields.items()})
            told = method.operation(Operations(front), params, asked(request, front, caller, user))
            if method.streamed:
                return await stream(told, request, front, _write, again=":subscribe")
            body = json.dumps(written(await told, method) or {})
            return Response(body, media_type=type_for(request.headers.get("accept", "")))
        except (A2AError, TurnwiseError) as error:
            return rest_answer(refused(error, request, front))

    return answer


async def _params(request: Request, method: Method, fields: dict[str, str]) -> Any:
    if request.method == "POST":
        return message_of(object_of(await request.body()) | fields, method.params)
    message, query = method.params(), _with_states(request.query_params)
    try:
        parse_params(query, message)
    except (ParseError, ValueError, TypeError, OverflowError):
        raise wrong("query", "A value is of the wrong kind.") from None
    check_state(query, message)
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def _with_states(query: QueryParams) -> QueryParams:
    """Names of states may be short there: `working`, `input-required`."""
    return QueryParams([(name, _state(value) if name == "status" else value) for name, value in query.multi_items()])


def _state(text: str) -> str:
    return text if text.startswith(STATE) else STATE + text.upper().replace("-", "_")


def type_for(accepted: str) -> str:
    """The media type of answers for who accepts that: the protocol's own, unless plain JSON is asked for."""
    wanted = dict(map(_weighed, accepted.lower().split(",")))
    own = wanted.get(A2A_JSON, wanted.get("application/*", wanted.get("*/*", 0.0)))
    return PLAIN_JSON if wanted.get(PLAIN_JSON, 0.0) > own else A2A_JSON


def _weighed(accepted: str) -> tuple[str, float]:
    kind, _, parameters = accepted.partition(";")
    weight = next((each.partition("=")[2] for each in parameters.split(";") if each.strip().startswith("q=")), "1")
    try:
        return kind.strip(), float(weight)
    except ValueError:
        return kind.strip(), 0.0


def _write(told: dict[str, Any] | Refusal) -> bytes:
    if isinstance(told, Refusal):
        return format_sse_event(data_str=json.dumps(told.as_rest), event="error")
    return format_sse_event(data_str=json.dumps(told))


router = APIRouter(include_in_schema=False)
for _path in PATHS:
    router.add_api_route(_path.path, _endpoint(_path), methods=[_path.verb], name=_path.method)
