"""Over real sockets, for every protocol: HEAD is answered wherever GET is, and 405 names what a path takes."""

import asyncio
from collections.abc import Callable

import pytest
from gateway_play import DEADLINE_SECONDS, Served, answered_raw, key_for, served
from runner_play import Gate

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.telemetry.metrics import Metrics

MakeRunner = Callable[..., Runner]
STREAM = {"Accept": "text/event-stream"}
PATHS = (
    *("/api/v1/sessions", "/api/v1/sessions/s", "/api/v1/sessions/s/events", "/api/v1/sessions/s/state"),
    *("/api/v1/sessions/s/messages/m", "/api/v1/sessions/s/artifacts", "/api/v1/sessions/s/artifacts/a.txt"),
    *("/api/v1/agents", "/api/v1/agents/desk", "/api/v1/decisions", "/api/v1/sessions/s/decisions/1"),
    *("/api/v1/health", "/api/v1/ready", "/api/v1/version", "/metrics", "/docs", "/docs/start.js", "/docs/swagger-ui.css"),
    *("/openapi.json", "/v1/models", "/v1/models/turnwise", "/.well-known/agent-card.json", "/adk/list-apps"),
    *("/a2a/rest/tasks", "/api/v1/sessions/none", "/v1/responses/none", "/adk/none", "/api/v1/none", "/none"),
)
ALLOWED = {
    "/api/v1/sessions": "GET, HEAD, POST",
    "/api/v1/sessions/s": "DELETE, GET, HEAD",
    "/api/v1/sessions/s/state": "GET, HEAD, PATCH",
    "/api/v1/sessions/s/messages": "POST",
    "/api/v1/sessions/s/artifacts/a.txt": "DELETE, GET, HEAD, PUT",
    "/api/v1/select": "POST",
    "/api/v1/health": "GET, HEAD",
    "/docs": "GET, HEAD",
    "/openapi.json": "GET, HEAD",
    "/metrics": "GET, HEAD",
    "/v1/chat/completions": "POST",
    "/v1/models": "GET, HEAD",
    "/adk/run": "POST",
    "/ag-ui": "POST",
    "/a2a": "POST",
    "/mcp": "POST",
    "/api/v1/graph-chat/chat": "POST",
    "/.well-known/agent-card.json": "GET, HEAD",
}


@agent
def desk(message: str) -> str:
    return message


async def filled(client: Served, headers: dict[str, str]) -> None:
    await client.send_message("hi", id="m", headers=headers)
    await client.put("/api/v1/sessions/s/artifacts/a.txt", content=b"text", headers=headers)


@pytest.mark.parametrize("auth", [False, True])
async def test_head_is_get_without_the_body(make_runner: MakeRunner, auth: bool) -> None:
    """With a credential, and without the one that is needed."""
    metrics = Metrics()
    runner = make_runner(desk, artifacts=InMemoryArtifactStore(), hooks=[metrics])
    metrics.attach(runner)
    config = GatewayConfig(auth=AuthConfig()) if auth else GatewayConfig()
    async with served(runner, config, metrics=metrics) as client:
        headers = await key_for(runner, role="admin", user="ann") if auth else {}
        await filled(client, headers)
        for path in PATHS:
            for given in (headers, {}):
                got, head = await client.get(path, headers=given), await client.head(path, headers=given)
                assert (head.status_code, head.content) == (got.status_code, b""), path
                for name in ("content-type", "etag", "cache-control", "content-disposition", "www-authenticate"):
                    assert head.headers.get(name) == got.headers.get(name), (path, name)
                assert ("content-length" in head.headers) == ("content-length" in got.headers), path


async def test_no_byte_of_a_body_is_sent(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        for path in ("/api/v1/version", "/docs/swagger-ui-bundle.js", "/api/v1/none"):
            asked = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            assert (await answered_raw(client.address, asked.encode())).endswith(b"\r\n\r\n"), path


async def test_the_head_of_a_stream_is_not_waited_for_and_stops_nothing(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as client, asyncio.timeout(DEADLINE_SECONDS):
        await client.send_message("hi", id="m", params={"wait": "false"})
        await gate.began.wait()
        head = await client.head("/api/v1/sessions/s/messages/m", headers=STREAM)
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        gate.go.set()
        answer = await client.get("/api/v1/sessions/s/messages/m", params={"wait": "true"})
        assert answer.json()["end"]["reason"] == "completed"


async def test_a_method_that_a_path_does_not_take(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk, artifacts=InMemoryArtifactStore())) as client:
        for path, allowed in ALLOWED.items():
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "HEAD"} - set(allowed.split(", ")):
                answer = await client.request(method, path)
                assert (answer.status_code, answer.headers.get("allow")) == (405, allowed), (method, path)
