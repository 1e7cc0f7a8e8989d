"""What A2A refuses, and how it says so, over real sockets."""

import json
from typing import Any

import httpx
import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a.client import A2AClientError
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, VersionNotSupportedError
from a2a_client import HTTP, JSONRPC, SPOKEN, Spoken, a_client, request_of, spoken
from gateway_play import key_for
from google.protobuf.json_format import MessageToDict

from turnwise import agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig

REST = "/a2a/rest"


@agent
def desk(message: str) -> str:
    return f"You said {message}."


def params(**fields: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **fields}
    return {"message": {name: value for name, value in message.items() if value is not None}}


def call(method: str = "SendMessage", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params(), **more}


async def posted(a2a: Spoken, body: Any, path: str = "/a2a", **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await a2a.gateway.post(path, content=content, headers={"Content-Type": "application/json", **SPOKEN, **headers})


def info(error: dict[str, Any]) -> dict[str, Any]:
    """The error's own detail."""
    found: dict[str, Any] = error["data" if "data" in error else "details"][0]
    assert found["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert all(isinstance(value, str) for value in found["metadata"].values())
    return found


@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"id": 1, "x": "\\ud800"}', -32700, None),
        (b"[" * 5000, -32700, None),
        ([], -32600, None),
        ([call()], -32600, None),
        ("text", -32600, None),
        (call(id=True), -32600, None),
        (call(id=[1]), -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1e400, "method": "ListTasks"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": -1e400, "method": "ListTasks"}', -32600, None),
        (call(jsonrpc="1.0"), -32600, 7),
        (call(jsonrpc=2), -32600, 7),
        (call() | {"method": None}, -32600, 7),
        (call(method=""), -32600, 7),
        (call("message/send"), -32601, 7),
        (call("sendmessage"), -32601, 7),
        (call(params=[1]), -32602, 7),
        (call(params="x"), -32602, 7),
        (call(params={}), -32602, 7),
        (call(params={"message": []}), -32602, 7),
        (call(params=params(messageId=None)), -32602, 7),
        (call(params=params(messageId=5)), -32602, 7),
        (call(params=params(messageId="x" * 201)), -32602, 7),
        (call(params=params(contextId="\0")), -32602, 7),
        (call(params=params(role="ROLE_AGENT")), -32602, 7),
        (call(params=params(role="nobody")), -32602, 7),
        (call(params=params(parts=[])), -32602, 7),
        (call(params=params(parts=[{}])), -32602, 7),
        (call(params=params(parts=[5])), -32602, 7),
        (call(params=params(parts=[{"text": "a", "url": "b"}])), -32602, 7),
        (call(params=params(parts=[{"raw": "no base 64"}])), -32602, 7),
        (call(params=params(parts=[{"raw": "a"}])), -32602, 7),
        (call(params=params(parts=[{"data": 10**400}])), -32602, 7),
        (call(params=params(parts=[{"text": ""}])), -32602, 7),
        (call(params=params(metadata={"agent": 5})), -32602, 7),
        (call(params=params(metadata={"agent": "nobody"})), -32602, 7),
        (call(params=params(metadata=[1])), -32602, 7),
        (call(params=params() | {"configuration": {"historyLength": -1}}), -32602, 7),
        (call(params=params() | {"configuration": {"historyLength": 2**40}}), -32602, 7),
        (call("ListTasks", params={"status": "TASK_STATE_ODD"}), -32602, 7),
        (call("ListTasks", params={"statusTimestampAfter": "yesterday"}), -32602, 7),
        (call("GetTask", params={}), -32602, 7),
        (call("GetTask", params={"id": "x"}), -32001, 7),
        (call("CancelTask", params={"id": "task_AAAA"}), -32001, 7),
    ],
)
async def test_a_call_that_cannot_be_served_is_an_error_of_json_rpc(body: Any, code: int, id_: Any) -> None:
    async with spoken(desk) as a2a:
        answer = await posted(a2a, body)
        told = answer.json()
        assert (answer.status_code, told["error"]["code"], told["id"]) == (200, code, id_)
        assert told.keys() == {"jsonrpc", "id", "error"}
        assert info(told["error"])["metadata"]["requestId"] == answer.headers["x-request-id"]
        assert not any(word in answer.text for word in ("Traceback", "ParseError", "Failed to parse", "google.protobuf."))
        assert "error" not in (await a2a.rpc("ListTasks"))


async def test_ids_of_calls_come_back() -> None:
    async with spoken(desk) as a2a:
        for id_ in ("text", 0, -1, 2**60, 1.5, None):
            assert (await posted(a2a, call("ListTasks", params=None, id=id_))).json()["id"] == id_
        without = call("ListTasks", params={})
        del without["id"]
        assert (await posted(a2a, without, "/a2a/")).json()["id"] is None


@pytest.mark.parametrize(
    ("place", "violation"),
    [
        (params(messageId=None), "message.message_id"),
        (params(parts=[{"raw": "###"}]), "message.parts[0].raw"),
        (params(parts=[{"text": 5}]), "params"),
        (params(parts=5), "message"),
        (params(metadata={"channel": 5}), "metadata.channel"),
    ],
)
async def test_an_error_names_the_place(place: Any, violation: str) -> None:
    async with spoken(desk) as a2a:
        error = (await a2a.rpc("SendMessage", place))["error"]
        (bad,) = (detail for detail in error["data"] if detail["@type"].endswith("google.rpc.BadRequest"))
        assert bad["fieldViolations"][0]["field"] == violation
        rest = (await posted(a2a, place, f"{REST}/message:send")).json()["error"]
        assert rest["details"][1] == bad


async def test_a_task_of_one_user_is_none_of_anothers() -> None:
    """Also for who acts for both, and if all other names are the same."""
    async with spoken(desk, GatewayConfig(auth=AuthConfig())) as a2a:
        server = await key_for(a2a.runner, acts_for_users=True)
        async with a_client(a2a.gateway, headers=server) as (its, _):

            async def sent(user: str, **fields: Any) -> wire.Task:
                request = request_of("ask", message_id="m", context_id="c", metadata={"user": user}, **fields)
                return [told async for told in its.send_message(request)][-1].task

            ann, bob = await sent("ann"), await sent("bob")
            assert ann.id != bob.id
            assert (await sent("ann", task_id=ann.id)).id == ann.id
            with pytest.raises(TaskNotFoundError):
                await sent("bob", task_id=ann.id)
            for user, status in (("ann", 200), ("bob", 404)):
                answer = await a2a.gateway.get(f"{REST}/tasks/{ann.id}", params={"user": user}, headers={**SPOKEN, **server})
                assert answer.status_code == status


@pytest.mark.parametrize("version", ["", "0.3", "1", "1.7", "2.0", "1.0.0.0", "one"])
@pytest.mark.parametrize("path", ["/a2a", f"{REST}/message:send", f"{REST}/message:stream"])
async def test_other_versions_are_not_spoken(version: str, path: str) -> None:
    async with spoken(desk) as a2a:
        body = call() if path == "/a2a" else params()
        answer = await posted(a2a, body, path, **{"A2A-Version": version})
        error = answer.json()["error"]
        assert (info(error)["reason"], info(error)["metadata"]["supported"]) == ("VERSION_NOT_SUPPORTED", "1.0")
        assert "Send the header A2A-Version: 1.0." in error["message"]
        assert answer.json().get("id") == (7 if path == "/a2a" else None)
        assert (answer.status_code, error["code"]) == ((200, -32009) if path == "/a2a" else (400, 400))


async def test_a_version_may_be_a_patch_and_stand_in_the_query() -> None:
    async with spoken(desk) as a2a:
        assert (await posted(a2a, call(), **{"A2A-Version": "1.0.1"})).json()["result"]
        for path in ("/a2a", f"{REST}/message:send"):
            body = call() if path == "/a2a" else params()
            answer = await a2a.gateway.post(path, json=body, params={"A2A-Version": "1.0"})
            assert answer.status_code == 200
            assert "error" not in answer.json()


async def test_the_sdks_errors_come_of_it() -> None:
    async with spoken(desk) as a2a:
        for binding in (JSONRPC, HTTP):
            async with a_client(a2a.gateway, binding, headers={"A2A-Version": "9.9"}) as (client, _):
                with pytest.raises((VersionNotSupportedError, A2AClientError)):
                    await client.list_tasks(wire.ListTasksRequest())
            async with a_client(a2a.gateway, binding) as (client, _):
                with pytest.raises(InvalidParamsError):
                    await client.list_tasks(wire.ListTasksRequest(page_size=1000))


@pytest.mark.parametrize("path", ["/a2a", f"{REST}/message:send", f"{REST}/tasks/x:cancel"])
@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", ";;", "application/x-www-form-urlencoded"])
async def test_what_is_no_json_by_its_header_is_no_broken_json(path: str, kind: str) -> None:
    async with spoken(desk) as a2a:
        error = (await posted(a2a, call() if path == "/a2a" else params(), path, **{"Content-Type": kind})).json()["error"]
        assert info(error)["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"
        for good in ("application/json", "application/a2a+json; charset=utf-8", "APPLICATION/JSON"):
            told = await posted(a2a, call() if path == "/a2a" else params(), path, **{"Content-Type": good})
            assert "CONTENT_TYPE" not in told.text


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/tasks/x", 404, "TASK_NOT_FOUND"),
        ("POST", "/tasks/x:cancel", 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks/x:subscribe", 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks?pageSize=0", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?pageSize=many", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?status=odd", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?pageToken=x", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?statusTimestampAfter=x", 400, "INVALID_PARAMS"),
        ("GET", "/tasks/x?historyLength=x", 400, "INVALID_PARAMS"),
        ("POST", "/message:send", 400, "INVALID_PARAMS"),
        ("GET", "/nothing", 404, "METHOD_NOT_FOUND"),
        ("PUT", "/tasks", 405, "INVALID_REQUEST"),
    ],
)
async def test_errors_of_the_http_binding(method: str, path: str, status: int, reason: str) -> None:
    async with spoken(desk) as a2a:
        answer = await a2a.gateway.request(method, REST + path, headers=SPOKEN)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], info(error)["reason"]) == (status, status, reason)


async def test_what_is_https_own_keeps_its_status() -> None:
    limits = CallerLimits(requests=8)
    async with spoken(desk, GatewayConfig(auth=AuthConfig(), body_bytes=2000, limits=limits)) as a2a:
        key = await key_for(a2a.runner, user="ann", scopes=["agents:read", "messages:write"])
        for path, body in (("/a2a", call("GetTask", params={"id": "x"})), (f"{REST}/message:send", params())):
            rpc = path == "/a2a"
            answer = await posted(a2a, body, path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["error"]["code"] == (-32000 if rpc else 401)
            assert info(answer.json()["error"])["reason"] == "UNAUTHENTICATED"
            large = await posted(a2a, params(parts=[{"text": "x" * 3000}]), path, **key)
            assert (large.status_code, large.json()["error"]["code"]) == (413, -32600 if rpc else 413)
        refused = await posted(a2a, call("GetTask", params={"id": "x"}), **key)
        assert (refused.status_code, info(refused.json()["error"])["reason"]) == (403, "PERMISSION_DENIED")
        assert refused.json()["id"] == 7
        for _ in range(10):
            limited = await posted(a2a, call(), **key)
        assert (limited.status_code, limited.headers["retry-after"].isdigit()) == (429, True)
        assert (limited.json()["error"]["code"], info(limited.json()["error"])["reason"]) == (-32000, "RATE_LIMITED")


async def test_a_process_that_is_stopped_takes_no_message() -> None:
    async with spoken(desk) as a2a:
        a2a.gateway.front.closing.set()
        for path, body, code in (("/a2a", call(), -32603), (f"{REST}/message:send", params(), 503)):
            answer = await posted(a2a, body, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, code)
            assert info(answer.json()["error"])["reason"] == "UNAVAILABLE"
            assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("accepted", "kind"),
    [
        (None, "application/a2a+json"),
        ("*/*", "application/a2a+json"),
        ("application/json", "application/json"),
        ("application/a2a+json", "application/a2a+json"),
        ("application/a2a+json, application/json", "application/a2a+json"),
        ("application/a2a+json;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json, */*;q=0.1", "application/json"),
        ("application/json;q=broken", "application/a2a+json"),
        ("text/html", "application/a2a+json"),
    ],
)
async def test_answers_come_in_the_type_that_is_asked_for(accepted: str | None, kind: str) -> None:
    async with spoken(desk) as a2a:
        headers = {} if accepted is None else {"Accept": accepted}
        answer = await a2a.gateway.post(f"{REST}/message:send", json=params(), headers={**SPOKEN, **headers})
        assert answer.headers["content-type"] == kind
        assert (await posted(a2a, call(), **headers)).headers["content-type"] == "application/json"


async def test_what_is_not_known_is_left_out() -> None:
    async with spoken(desk) as a2a:
        body = MessageToDict(request_of("hi")) | {"more": 1, "tenant": "t"}
        body["message"]["extra"] = {"a": [1]}
        assert "task" in (await a2a.rpc("SendMessage", body, headers={"A2A-Extensions": "https://example.com/e"}))["result"]
