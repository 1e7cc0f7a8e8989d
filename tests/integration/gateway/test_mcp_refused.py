"""What /mcp refuses, and in which words: at its door, in the protocol, and as results of tools."""

import asyncio
import copy
import json
import logging
import subprocess
import sys
from typing import Any

import httpx
import pytest
from gateway_play import answered_raw, key_for, served
from mcp_client_play import MODES, client_of, error_from, refusal, structured, talking
from runner_play import Gate, soon
from whose_routes.mcp import ACCEPT, ENVELOPE, NEW, new_headers, request, told

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig, McpConfig, Protocols
from turnwise.stores.artifacts.local import InMemoryArtifactStore

AUTH = GatewayConfig(auth=AuthConfig(), origins=("https://shop.example",))
JSON = {"Content-Type": "application/json"}
ASK = request("tools/call", name="ask", arguments={"message": "hi"})
NEW_ASK = request("tools/call", name="ask", arguments={"message": "hi"}, _meta=ENVELOPE)


@agent
def echo(message: str) -> str:
    return f"You said {message}"


def said(answer: httpx.Response) -> str:
    """The words of a tool's result."""
    return str(told(answer)["result"]["content"][0]["text"])


async def test_who_may_not_enter_is_told_over_http() -> None:
    runner = Runner(echo, store=SqlSessionStore("sqlite://"))
    limits = CallerLimits(requests=2)
    async with served(runner, AUTH.replace(limits=limits)) as client:
        for headers in ({}, {"Authorization": "Bearer tw_wrong"}):
            answer = await client.post("/mcp", json=ASK, headers={**ACCEPT, **headers})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            error = answer.json()["error"]
            assert (answer.json()["jsonrpc"], answer.json()["id"], error["code"]) == ("2.0", None, -32000)
            assert error["data"]["code"] == "access.unauthenticated"
        ann = await key_for(runner)
        answers = [await client.post("/mcp", json=ASK, headers={**ACCEPT, **ann}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].json()["error"]["data"]["retry_after"] == int(answers[2].headers["retry-after"]) >= 1
    await runner.close()


async def test_too_many_answers_at_once_are_a_result() -> None:
    gate = Gate()
    config = GatewayConfig(limits=CallerLimits(runs=1))
    async with talking(gate.agent, config=config) as talk, client_of(talk.gateway.address) as other:
        invocation = await talk.runner.start("hi", user="local", session="other")
        started = await talk.gateway.post("/api/v1/sessions/s/messages", params={"wait": False}, json={"content": "hi"})
        assert started.status_code == 202
        told_why = refusal(await other.call_tool("ask", {"message": "hi"}))
        assert (told_why["code"], told_why["retry_after"] >= 1) == ("access.too_many", True)
        gate.go.set()
        await soon(invocation.result())


@pytest.mark.parametrize("headers", [ACCEPT, new_headers("tools/call", "ask")])
async def test_what_is_too_large(headers: dict[str, str]) -> None:
    async with talking(echo, config=GatewayConfig(body_bytes=2000)) as talk:
        body = copy.deepcopy(NEW_ASK)
        body["params"]["arguments"]["message"] = "x" * 3000

        async def dripping() -> Any:
            yield json.dumps(body).encode()

        for content in (json.dumps(body).encode(), dripping()):
            answer = await talk.gateway.post("/mcp", content=content, headers={**headers, **JSON})
            assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (413, "request.too_large")


@pytest.mark.parametrize("mode", MODES)
async def test_a_message_that_is_too_large_is_a_result(mode: str) -> None:
    async with talking(echo, mode) as talk:
        most = talk.runner.config.limits.message_bytes
        assert refusal(await talk.call("ask", message="x" * (most + 1)))["code"] == "message.too_large"


HERE = ("127.0.0.1", "localhost", "LocalHost", "[::1]")


async def test_names_of_this_machine_are_fine_and_others_are_not() -> None:
    async with talking(echo) as talk:
        port = talk.gateway.address.rpartition(":")[2]

        async def asked(host: str, **headers: str) -> int:
            sent = {**ACCEPT, "Host": host, **headers}
            return (await talk.gateway.post("/mcp", json=ASK, headers=sent)).status_code

        for name in HERE:
            for host in (name, f"{name}:{port}"):
                assert (host, await asked(host)) == (host, 200)
                assert (host, await asked(host, Origin=f"http://{host}")) == (host, 200)
                assert (host, await asked(host, Origin=f"https://{host}".upper())) == (host, 200)
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost:80.evil.example",
            "localhost.",
            "10.0.0.1",
            "x@localhost",
        ):
            assert (host, await asked(host)) == (host, 403)
        for origin in ("http://evil.example", "null", "", f"http://localhost:{port}.evil.example", "http://localhost:1"):
            assert (origin, await asked(f"localhost:{port}", Origin=origin)) == (origin, 403)


async def test_a_second_host_is_not_looked_past() -> None:
    async with talking(echo) as talk:
        body = json.dumps(ASK)
        hosts = "Host: localhost\r\nHost: evil.example\r\n"
        head = f"POST /mcp HTTP/1.1\r\n{hosts}Content-Type: application/json\r\nAccept: {ACCEPT['Accept']}\r\n"
        rest = f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        assert (await answered_raw(talk.gateway.address, (head + rest).encode())).startswith(b"HTTP/1.1 403 ")


async def test_blanks_around_a_headers_value_are_no_part_of_it() -> None:
    """RFC 9110, 5.5: `Mcp-Name`, which is compared with the body, among them."""
    async with talking(echo) as talk:
        body, headers = json.dumps(NEW_ASK), new_headers("tools/call", "ask")
        lines = [f"{name}: \t {value} \t" for name, value in ({**headers, **JSON, "Host": "localhost"}).items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "Connection: close", f"Content-Length: {len(body)}", "", body])
        answer = (await answered_raw(talk.gateway.address, head.encode())).decode()
        assert answer.startswith("HTTP/1.1 200 "), answer
        assert "You said hi" in answer


async def test_pages_of_origins_that_are_named() -> None:
    config = GatewayConfig(origins=("https://shop.example",))
    async with talking(echo, config=config) as talk:
        for origin, status in (("https://shop.example", 200), ("https://other.example", 403)):
            answer = await talk.gateway.post("/mcp", json=ASK, headers={**ACCEPT, "Origin": origin})
            assert answer.status_code == status


@pytest.mark.parametrize("origins", [("https://shop.example",), ("*",)])
async def test_with_a_key_any_name_will_do_but_not_any_page(origins: tuple[str, ...]) -> None:
    runner = Runner(echo, store=SqlSessionStore("sqlite://"))
    async with served(runner, AUTH.replace(origins=origins)) as client:
        ann = await key_for(runner)

        async def asked(**headers: str) -> httpx.Response:
            return await client.post("/mcp", json=ASK, headers={**ACCEPT, **ann, **headers})

        assert (await asked(Host="turnwise.internal:8000")).status_code == 200
        assert (await asked(Origin="https://shop.example")).status_code == 200
        foreign = await asked(Origin="https://evil.example")
        assert foreign.status_code == (200 if "*" in origins else 403)
        if foreign.status_code == 403:
            assert foreign.json()["error"]["data"]["code"] == "access.forbidden"
    await runner.close()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_there_is_no_stream_and_no_session_of_its_own(method: str) -> None:
    async with talking(echo) as talk:
        answer = await talk.gateway.request(method, "/mcp", headers={**ACCEPT, "Mcp-Session-Id": "1"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json()["error"]["data"]["code"] == "request.method"
        assert "mcp-session-id" not in (await talk.gateway.post("/mcp", json=ASK, headers=ACCEPT)).headers


async def test_versions() -> None:
    async with talking(echo) as talk:

        async def asked(version: str | None, body: dict[str, Any]) -> httpx.Response:
            headers = ACCEPT if version is None else {**ACCEPT, "MCP-Protocol-Version": version}
            return await talk.gateway.post("/mcp", json=body, headers=headers)

        for old in (None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            assert said(await asked(old, ASK)) == "You said hi"
        unknown = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        headers = {**new_headers("tools/call", "ask"), "MCP-Protocol-Version": "1999-01-01"}
        body = request("tools/call", name="ask", arguments={"message": "hi"}, _meta=unknown)
        answer = await talk.gateway.post("/mcp", json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32022)
        assert answer.json()["error"]["data"]["supported"] == [NEW]
        differs = await talk.gateway.post("/mcp", json=NEW_ASK, headers=new_headers("tools/call", "select"))
        assert (differs.status_code, differs.json()["error"]["code"]) == (400, -32020)
        for version in ("1999-01-01", "2025-11-25"):
            greeting = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            greeted = told(await asked(None, request("initialize", **greeting)))
            assert greeted["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("headers", [ACCEPT, new_headers("tools/call", "ask")])
async def test_what_is_no_message(headers: dict[str, str]) -> None:
    async with talking(echo) as talk:

        async def asked(content: bytes, **more: str) -> httpx.Response:
            return await talk.gateway.post("/mcp", content=content, headers={**headers, **JSON, **more})

        for content in (b"", b"{", b"\xff", b"nonsense", b"[" * 20_000):
            answer = await asked(content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
            assert answer.json()["id"] is None
        for content in (
            b"1",
            b"[]",
            b'{"id": 1}',
            b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
            b'{"jsonrpc": "2.0", "id": {}}',
        ):
            answer = await asked(content)
            assert (answer.status_code, answer.json()["error"]["code"] in (-32600, -32602)) == (400, True)
        plain = await asked(json.dumps(ASK).encode(), **{"Content-Type": "text/plain"})
        assert (plain.status_code, plain.json()["error"]["data"]["where"]) == (422, ["header", "Content-Type"])
        assert (await asked(json.dumps(ASK).encode(), Accept="text/html")).status_code == 406


@pytest.mark.parametrize("mode", MODES)
async def test_methods_and_tools_that_there_are_not(mode: str) -> None:
    async with talking(echo, mode) as talk:
        assert (await error_from(talk.client.list_prompts())).code == -32601
        assert (await error_from(talk.client.get_prompt("x"))).code == -32601
        for name in ("nothing", "nothing" * 1000):
            unknown = await error_from(talk.call(name))
            assert (unknown.code, len(unknown.message) < 100) == (-32602, True)
        headers = new_headers("m" * 1000) if mode == "auto" else ACCEPT
        answer = await talk.gateway.post("/mcp", json=request("m" * 1000, _meta=ENVELOPE), headers=headers)
        assert told(answer)["error"] == {"code": -32601, "message": "Method not found"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "arguments", "told_why"),
    [
        ("ask", {}, "The key 'message' is missing."),
        ("ask", {"mesage": "hi"}, "There is no key 'mesage' here. (Mistakes in all: 2.) Did you mean 'message'?"),
        ("ask", {"message": 1}, "'message' should be text, but is "),
        ("ask", {"message": ""}, "at least 1 character"),
        ("ask", {"message": "hi", "session": "s" * 201}, "at most 200 characters"),
        ("ask", {"message": "hi", "session": {"deep": [[]]}}, "'session' should be text"),
        ("ask", {"message": "hi", "approved": "yes"}, "'approved' should be true or false"),
        ("ask", {"message": "hi", "approved": True}, "Name that question: answer_to."),
        ("ask", {"message": "hi", "answer_to": "c"}, "Pass the session of the wait."),
        ("ask", {"message": "hi", "session": "s", "answer_to": "c", "agent": "echo"}, "Leave out the agent"),
        ("ask", {"message": "hi", "session": "s", "answer_to": "c"}, "Session 's' of user 'local' does not exist."),
        ("ask", {"message": "hi", "session": "\x00"}, "NUL"),
        ("select", {"message": "hi", "agent": "echo"}, "The arguments are: message, session."),
        ("explain", {}, "The key 'session' is missing."),
    ],
)
async def test_arguments_that_do_not_fit_are_a_result(mode: str, tool: str, arguments: dict[str, Any], told_why: str) -> None:
    async with talking(echo, mode) as talk:
        result = await talk.client.call_tool(tool, arguments)
        why = refusal(result)
        assert told_why in f"{why['problem']} {why['fix']}"
        assert why["code"] in ("request.invalid", "session.missing", "message.invalid", "message")


async def test_whoever_waits_when_the_process_leaves_is_told_to_ask_again() -> None:
    gate = Gate()
    async with talking(gate.agent, config=GatewayConfig(grace_seconds=0)) as talk:
        asking = asyncio.create_task(talk.call("ask", message="hi", session="s", message_id="m"))
        await soon(gate.began.wait())
        talk.gateway.front.closing.set()
        why = refusal(await soon(asking))
        assert why["code"] == "request.closing"
        assert "session 's' and message_id 'm'" in why["fix"]
        assert refusal(await talk.call("ask", message="hi"))["code"] == "request.closing"
        talk.gateway.front.closing.clear()
        gate.go.set()
        assert (await talk.ask("hi", session="s", message_id="m"))["text"] == "answer to hi"


@pytest.mark.parametrize("mode", MODES)
async def test_a_defect_is_told_in_the_log_alone(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(InMemoryArtifactStore):
        async def load(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("a secret of the house")

    async with talking(echo, mode, artifacts=Broken()) as talk:
        await talk.ask("hi", session="s")
        error = await error_from(talk.client.read_resource("turnwise://sessions/s/artifacts/a"))
        assert (error.code, error.message, error.data) == (-32603, "This is a defect of the gateway.", {"code": "internal"})
        assert [
            record.exc_info and str(record.exc_info[1]) for record in caplog.records if record.levelno >= logging.ERROR
        ] == ["a secret of the house"]


@pytest.mark.parametrize("headers", [ACCEPT, new_headers("tools/call", "ask")])
async def test_a_name_for_progress_is_not_a_way_to_be_told_much(headers: dict[str, str]) -> None:
    async with talking(echo) as talk:
        meta = {**ENVELOPE, "progressToken": "x" * 201}
        body = request("tools/call", name="ask", arguments={"message": "hi"}, _meta=meta)
        answer = await talk.gateway.post("/mcp", json=body, headers=headers)
        assert told(answer)["error"]["code"] == -32602
        assert len(answer.text) < 500


ODD = (r'"\ud800"', r'{"\ud800": 1}', r'"\u0000"', "NaN", "-1e999", "9" * 5000, "null", "[[]]", "true", "[" * 3000 + "]" * 3000)


async def test_odd_values_everywhere_in_a_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    arguments = {"message": "hi", "session": "s", "message_id": "m", "agent": "echo"}
    whole = request("tools/call", name="ask", arguments=arguments, _meta={**ENVELOPE, "progressToken": 1})
    places: list[tuple[str, ...]] = [("jsonrpc",), ("id",), ("method",), ("params",)]
    places += [("params", name) for name in whole["params"]]
    places += [("params", "arguments", name) for name in arguments]
    places += [("params", "_meta", name) for name in whole["params"]["_meta"]]
    async with talking(echo) as talk:
        for place in places:
            for value in ODD:
                odd = copy.deepcopy(whole)
                inside: Any = odd
                for step in place[:-1]:
                    inside = inside[step]
                inside[place[-1]] = "@here"
                content = json.dumps(odd).replace('"@here"', value).encode()
                for headers in (ACCEPT, new_headers("tools/call", "ask")):
                    answer = await talk.gateway.post("/mcp", content=content, headers={**headers, **JSON})
                    assert (place, value[:20], answer.status_code < 500) == (place, value[:20], True), answer.text
                    assert "Traceback" not in answer.text
                    assert answer.status_code == 202 or told(answer)["jsonrpc"] == "2.0"
        assert [record.getMessage() for record in caplog.records] == []
        assert structured(await talk.call("ask", message="hi"))["text"] == "You said hi"


async def test_switched_off_it_is_as_if_it_did_not_exist() -> None:
    async with served(
        Runner(echo, store=SqlSessionStore("sqlite://")), GatewayConfig(protocols=Protocols(mcp=McpConfig(on=False)))
    ) as client:
        answer = await client.post("/mcp", json=ASK, headers=ACCEPT)
        assert (answer.status_code, answer.json()["code"]) == (404, "request.nothing_here")
        await client.front.runner.close()


@pytest.mark.parametrize(("on", "lacks"), [("McpConfig(on=True)", "['mcp']"), ("McpConfig()", "[]")])
def test_without_the_library_it_is_not_there_and_told_where_it_has_to_be(on: str, lacks: str) -> None:
    program = f"""
import sys
sys.modules["mcp"] = None
from turnwise.config.gateway_entries import protocols_without_extra
from turnwise.facts.gateway import McpConfig, Protocols
from turnwise.gateway.app import protocols
config = Protocols(mcp={on})
print(protocols_without_extra(config, wanted=True), [each.prefix for each in protocols(config) if each.prefix == "/mcp"])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"{lacks} []\n"
