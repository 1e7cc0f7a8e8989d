"""What can be asked as clients of A2A do: by JSON-RPC, a method in the body of one route, and by HTTP."""

from types import MappingProxyType
from typing import Any, Literal

import httpx
from a2a.utils.errors import A2A_ERROR_MAPPING, A2A_REASON_TO_ERROR
from whose_asked import Asked, Made, Routes, Things

from turnwise.facts.callers import Permission
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.problems import status_of

VERSION = MappingProxyType({"A2A-Version": "1.0"})
NOWHERE = "http://127.0.0.1/"
"""Nobody is told of anything there: the address is not public."""


def task(things: Things) -> str:
    """The id of their task."""
    return TaskId(things.session, things.message).id


def status(answer: httpx.Response) -> int:
    """The status, also of an error that is said with 200."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return answer.status_code
    error = answer.json().get("error")
    if error is None:
        return answer.status_code
    (info, *_) = error["data" if "data" in error else "details"]
    if (code := info["metadata"].get("code")) is not None:
        return status_of(code)
    return A2A_ERROR_MAPPING[A2A_REASON_TO_ERROR[info["reason"]]].http_code


def asked(
    permission: Permission, made: Made | None = None, *, names: Literal["query", ""] = "query", ok: int = 200, **query: Any
) -> Asked:
    body = made or (lambda _: None)
    return Asked(permission, body, query, VERSION, names=names, ok=ok, status=status)


def call(permission: Permission, method: str, params: Made, *, names: Literal["query", ""] = "query", ok: int = 200) -> Asked:
    """The same as JSON-RPC has it."""
    made: Made = lambda t: {"jsonrpc": "2.0", "id": "1", "method": method, "params": params(t)}  # noqa: E731 - it is handed on
    return asked(permission, made, names=names, ok=ok)


def said(things: Things, **fields: Any) -> dict[str, Any]:
    """A message of theirs."""
    message = {"messageId": things.new, "role": "ROLE_USER", "parts": [{"text": "hi"}], **fields}
    return {"message": message, "configuration": {"historyLength": 2}}


def anew(things: Things) -> dict[str, Any]:
    return said(things)


def there(things: Things) -> dict[str, Any]:
    return said(things, contextId=things.session)


def answering(things: Things) -> dict[str, Any]:
    return said(things, taskId=task(things))


def by_id(things: Things) -> dict[str, Any]:
    return {"id": task(things)}


def of_task(things: Things) -> dict[str, Any]:
    return {"taskId": task(things)}


def one(things: Things) -> dict[str, Any]:
    return {"taskId": task(things), "id": "p"}


def told(things: Things) -> dict[str, Any]:
    return {"taskId": task(things), "url": NOWHERE}


def nothing(_: Things) -> dict[str, Any]:
    return {}


_REST = "/a2a/rest"
_PUSHES = _REST + "/tasks/{task_id}/pushNotificationConfigs"

ROUTES: Routes = {
    ("GET", "/.well-known/agent-card.json"): (Asked(None, names=""),),
    ("POST", "/a2a"): (
        call("messages:write", "SendMessage", anew),
        call("messages:write", "SendMessage", there),
        call("messages:write", "SendMessage", answering),
        call("messages:write", "SendStreamingMessage", there),
        call("messages:write", "SendStreamingMessage", answering),
        call("sessions:read", "GetTask", by_id),
        call("sessions:read", "ListTasks", lambda t: {"contextId": t.session, "historyLength": 1}),
        call("sessions:read", "SubscribeToTask", by_id)._replace(endless=True),
        call("invocations:cancel", "CancelTask", by_id),
        call("messages:write", "CreateTaskPushNotificationConfig", told, ok=422),
        call("messages:write", "ListTaskPushNotificationConfigs", of_task),
        call("messages:write", "GetTaskPushNotificationConfig", one, ok=404),
        call("messages:write", "DeleteTaskPushNotificationConfig", one),
        call("agents:read", "GetExtendedAgentCard", nothing, names=""),
    ),
    ("POST", "/a2a/"): (call("sessions:read", "GetTask", by_id),),
    ("POST", _REST + "/message:send"): (
        asked("messages:write", anew),
        asked("messages:write", there),
        asked("messages:write", answering),
    ),
    ("POST", _REST + "/message:stream"): (asked("messages:write", there), asked("messages:write", answering)),
    ("GET", _REST + "/tasks"): (asked("sessions:read"), asked("sessions:read", status="input-required")),
    ("GET", _REST + "/tasks/{task_id}"): (asked("sessions:read", historyLength=1),),
    ("POST", _REST + "/tasks/{task_id}:cancel"): (asked("invocations:cancel", nothing),),
    ("POST", _REST + "/tasks/{task_id}:subscribe"): (asked("sessions:read")._replace(endless=True),),
    ("GET", _REST + "/tasks/{task_id}:subscribe"): (asked("sessions:read")._replace(endless=True),),
    ("POST", _PUSHES): (asked("messages:write", lambda _: {"url": NOWHERE}, ok=422),),
    ("GET", _PUSHES): (asked("messages:write", pageSize=1),),
    ("GET", _PUSHES + "/{push_id}"): (asked("messages:write", ok=404),),
    ("DELETE", _PUSHES + "/{push_id}"): (asked("messages:write"),),
    ("GET", _REST + "/extendedAgentCard"): (asked("agents:read", names=""),),
}
