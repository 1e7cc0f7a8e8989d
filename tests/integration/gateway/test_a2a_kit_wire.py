"""What A2A's conformance kit looks at on the wire: the card, forms, headers, versions and errors, as bytes come and go."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a.types import GetExtendedAgentCardRequest
from a2a_client import HTTP, JSONRPC, SPOKEN
from a2a_kit_play import BINDINGS, RUN, kit
from gateway_play import Served, events_in

SNAKE = re.compile(r"^[a-z]+(_[a-z]+)+$")
STAMP = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$")
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def message(begins: str = "tck-complete-task", **fields: Any) -> dict[str, Any]:
    """The parameters of SendMessage."""
    return {"message": {"role": "ROLE_USER", "messageId": f"{begins}-{RUN}", "parts": [{"text": "Hello"}], **fields}}


async def rest(gateway: Served, path: str, body: Any = None, **headers: str) -> httpx.Response:
    """A request to the HTTP binding; a POST if it has a body."""
    given = {**SPOKEN, **headers}
    if body is None:
        return await gateway.get(f"/a2a/rest{path}", headers=given)
    return await gateway.post(f"/a2a/rest{path}", json=body, headers=given)


def named(value: Any) -> Iterator[tuple[str, Any]]:
    """All names in a JSON value, with what they name."""
    if isinstance(value, dict):
        yield from value.items()
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from named(each)


async def test_the_card_says_where_and_how_and_may_be_kept() -> None:
    async with kit() as peer:
        answer = await peer.gateway.get("/.well-known/agent-card.json")
        card = answer.json()
        required = {"name", "description", "version", "capabilities", "skills", "supportedInterfaces"}
        assert card.keys() >= required | {"defaultInputModes", "defaultOutputModes"}
        assert [(each["protocolBinding"], each["protocolVersion"], each["url"]) for each in card["supportedInterfaces"]] == [
            (JSONRPC, "1.0", f"{peer.gateway.address}/a2a"),
            (HTTP, "1.0", f"{peer.gateway.address}/a2a/rest"),
        ]
        assert card["capabilities"]["streaming"]
        assert "max-age=" in answer.headers["cache-control"]
        assert answer.headers.keys() >= {"etag", "last-modified"}
        known = {"If-None-Match": answer.headers["etag"]}
        assert (await peer.gateway.get("/.well-known/agent-card.json", headers=known)).status_code == 304


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_extended_card_is_what_the_card_promises(binding: str) -> None:
    async with kit(binding) as peer:
        assert peer.card.capabilities.extended_agent_card
        card = await peer.client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name == peer.card.name
        assert {skill.id for skill in card.skills} >= {skill.id for skill in peer.card.skills}


async def test_answers_are_written_as_the_protocol_has_it() -> None:
    async with kit() as peer:
        called = await peer.call("SendMessage", message())
        asked = await rest(peer.gateway, "/message:send", message("tck-input-required"))
        assert called.headers["content-type"].startswith("application/json")
        assert asked.headers["content-type"].startswith("application/a2a+json")
        plain = await rest(peer.gateway, "/message:send", message(), Accept="application/json")
        assert plain.headers["content-type"].startswith("application/json")
        assert (called.json()["jsonrpc"], called.json()["id"]) == ("2.0", 1)
        for answer in (called.json()["result"], asked.json()):
            names = list(named(answer))
            assert [name for name, _ in names if SNAKE.match(name)] == []
            assert {state for name, state in names if name == "state"} <= {"TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"}
            stamps = [value for name, value in names if name == "timestamp"]
            assert stamps
            assert all(map(STAMP.match, stamps))


async def test_streams_are_server_sent_events_of_answers() -> None:
    async with kit() as peer:
        called = await peer.call("SendStreamingMessage", message("tck-stream-001"))
        asked = await rest(peer.gateway, "/message:stream", message("tck-stream-003"))
        for answer in (called, asked):
            assert answer.headers["content-type"].startswith("text/event-stream")
        replies = [json.loads(data) for _, _, data in events_in(called.text)]
        assert all((reply["jsonrpc"], reply["id"]) == ("2.0", 1) for reply in replies)
        told = [json.loads(data) for _, _, data in events_in(asked.text)]
        for each in (*(reply["result"] for reply in replies), *told):
            (kind,) = each
            assert kind in ("task", "message", "statusUpdate", "artifactUpdate")


async def test_a_list_always_says_what_comes_next() -> None:
    async with kit() as peer:
        for listed in (
            (await peer.call("ListTasks", {"contextId": "tck-test-context"})).json()["result"],
            (await rest(peer.gateway, "/tasks?contextId=tck-test-context&pageSize=2")).json(),
        ):
            assert (listed["tasks"], listed["nextPageToken"]) == ([], "")
        await peer.task("tck-artifact-text", context_id="tck-test-context")
        listed = (await rest(peer.gateway, "/tasks?contextId=tck-test-context&includeArtifacts=false")).json()
        assert "artifacts" not in listed["tasks"][0]


async def test_what_is_not_known_of_a_message_or_its_headers_is_passed_over() -> None:
    async with kit() as peer:
        odd = {**message(tckUnknownField="x"), "tckExtraParam": 42}
        extensions = {"A2A-Extensions": "https://example.com/ext/v1,https://example.com/ext/v2"}
        called = await peer.call("SendMessage", odd, headers=extensions)
        assert called.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await rest(peer.gateway, "/message:send", odd, **extensions)).status_code == 200


@pytest.mark.parametrize("version", ["99.0", "2.0", "1.7", "0.2"])
async def test_another_version_is_not_spoken(version: str) -> None:
    async with kit() as peer:
        headers = {"A2A-Version": version}
        called = await peer.call("SendMessage", message(), headers=headers)
        assert called.json()["error"]["code"] == -32009
        asked = await rest(peer.gateway, "/message:send", message(), **headers)
        assert (asked.status_code, _reason(asked.json()["error"]["details"])) == (400, "VERSION_NOT_SUPPORTED")


async def test_no_version_is_an_answer_or_an_error_of_the_protocol() -> None:
    async with kit() as peer:
        answer = (await peer.call("SendMessage", message(), headers={"A2A-Version": ""})).json()
        assert "result" in answer or -32099 <= answer["error"]["code"] <= -32001


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"method": "NonExistentMethod"}, -32601),
        ({"params": {}}, -32602),
        ({"params": []}, -32602),
        ({"params": {"message": {"role": "ROLE_USER", "messageId": "x", "parts": "none"}}}, -32602),
        ({"jsonrpc": "1.0"}, -32600),
        ({"method": 7}, -32600),
        ({"method": "GetTask", "params": {"id": "tck-nonexistent"}}, -32001),
        ({"method": "CancelTask", "params": {"id": "tck-nonexistent"}}, -32001),
        ({"method": "SubscribeToTask", "params": {"id": "tck-nonexistent"}}, -32001),
    ],
)
async def test_a_call_that_cannot_be_is_an_error_of_json_rpc(changes: dict[str, Any], code: int) -> None:
    async with kit() as peer:
        call = {"method": "SendMessage", "params": message(), **changes}
        answer = (await peer.call(call.pop("method"), call.pop("params"), **call)).json()
        assert answer["id"] == 1
        assert answer["error"].keys() <= {"code", "message", "data"}
        assert (answer["error"]["code"], isinstance(answer["error"]["message"], str)) == (code, True)
        if code == -32001:
            assert _reason(answer["error"]["data"]) == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/tasks/tck-nonexistent", None, 404, "TASK_NOT_FOUND"),
        ("/tasks/tck-nonexistent:cancel", {}, 404, "TASK_NOT_FOUND"),
        ("/tasks/tck-nonexistent:subscribe", {}, 404, "TASK_NOT_FOUND"),
        ("/message:send", {}, 400, "INVALID_PARAMS"),
        ("/message:send", message(role="ROLE_AGENT"), 400, "INVALID_PARAMS"),
    ],
)
async def test_a_request_that_cannot_be_is_an_error_of_http(path: str, body: Any, status: int, reason: str) -> None:
    async with kit() as peer:
        answer = await rest(peer.gateway, path, body)
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("application/json")
        error = answer.json()["error"]
        assert (error["code"], isinstance(error["message"], str), _reason(error["details"])) == (status, True, reason)


async def test_what_is_no_json_by_its_header_or_at_all_is_refused() -> None:
    async with kit() as peer:
        call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()})
        plain = {**SPOKEN, "Content-Type": "text/plain"}
        called = await peer.gateway.post("/a2a", content=call, headers=plain)
        assert called.json()["error"]["code"] == -32005
        asked = await peer.gateway.post("/a2a/rest/message:send", content=json.dumps(message()), headers=plain)
        assert (asked.status_code, _reason(asked.json()["error"]["details"])) == (400, "CONTENT_TYPE_NOT_SUPPORTED")
        broken = await peer.gateway.post("/a2a", content="{", headers={**SPOKEN, "Content-Type": "application/json"})
        assert broken.json()["error"]["code"] == -32700


async def test_a_file_of_a_kind_that_the_card_does_not_name_is_refused() -> None:
    async with kit() as peer:
        odd = message(parts=[{"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"}])
        assert (await peer.call("SendMessage", odd)).json()["error"]["code"] == -32005
        asked = await rest(peer.gateway, "/message:send", odd)
        assert (asked.status_code, _reason(asked.json()["error"]["details"])) == (400, "CONTENT_TYPE_NOT_SUPPORTED")
        taken = message(parts=[{"raw": "dGNr", "mediaType": "image/png", "filename": "a.png"}])
        assert "result" in (await peer.call("SendMessage", taken)).json()


def _reason(details: list[dict[str, Any]]) -> str:
    """The reason of an error."""
    (info,) = (each for each in details if each["@type"] == ERROR_INFO)
    assert info["domain"] == "a2a-protocol.org"
    return str(info["reason"])
