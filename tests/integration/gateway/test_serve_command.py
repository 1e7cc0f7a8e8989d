"""`turnwise serve` as a process of its own: what it says, whom it lets in, and what it refuses to serve."""

import asyncio
import json
import re
import shlex
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_play import ended, heard, started, turnwise
from gateway_play import served
from serve_play import MESSAGES, Process, project

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.content import text_content
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey

Serve = Callable[..., Process]


def test_it_says_where_it_is_what_it_serves_who_may_call_it_and_what_to_try(tmp_path: Path, serve: Serve) -> None:
    process = serve(project(tmp_path))
    where, sessions, documentation, console, protocols, who, traces, tried = (line.strip() for line in process.said)
    assert where == f"Serving test at {process.address}; only this machine can connect"
    assert sessions == "sessions: stored in sqlite:///turnwise.db"
    assert documentation == f"documentation: {process.address}/docs"
    assert console == f"console: {process.address}/console/"
    assert protocols.startswith("protocols: Turnwise's API (/api/v1), OpenAI (/v1), ")
    assert who == "authentication: off (gateway.auth is not set), so everybody on this machine has full access"
    assert traces == "traces: off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)"
    assert tried.startswith(f"try it: curl {process.address}{MESSAGES.replace('/s/', '/s1/')} ")
    url, _, header, _, body = shlex.split(tried.removeprefix("try it: curl "))
    with process.client() as client:
        name, value = header.split(": ")
        answer = client.post(url, content=body, headers={name: value})
        assert answer.json()["text"] == "You said Hello"
        assert client.get("/docs").status_code == 200
        assert client.get("/api/v1/ready").json() == {"status": "ready", "guardrail_threads_stuck": 0}
    line = json.loads(process.hears('"POST /api/v1/sessions/{session_id}/messages 200 in '))
    assert (line["level"], line["request"]) == ("info", answer.headers["x-request-id"])


def test_keys_are_asked_for_and_numbers_counted(tmp_path: Path, serve: Serve) -> None:
    folder = project(tmp_path, "gateway: {auth: {keys: true}, documentation: false, host: 0.0.0.0}\n")
    keys = [
        turnwise("keys", "create", "one", *rights, cwd=folder).stdout.strip()
        for rights in (("--user", "ann"), ("--role", "operator"))
    ]
    process = serve(folder, "--log", "text")
    assert re.fullmatch(r"Serving test at http://0\.0\.0\.0:\d+\n", process.said[0])
    assert "  documentation: off (gateway.documentation is false)\n" in process.said
    assert "  authentication: on, requests need an API key (turnwise keys create NAME --user USER)\n" in process.said
    assert "curl http://127.0.0.1:" in process.said[-1]
    assert '-H "Authorization: Bearer $KEY"' in process.said[-1]
    ann, operator = ({"Authorization": f"Bearer {key}"} for key in keys)
    with process.client() as client:
        assert client.post(MESSAGES, json={"content": "hi"}).status_code == 401
        assert client.post(MESSAGES, json={"content": "hi"}, headers=ann).json()["text"] == "You said hi"
        assert client.get("/docs").status_code == 404
        assert client.get("/metrics", headers=ann).status_code == 403
        numbers = client.get("/metrics", headers=operator).text
    assert 'turnwise_invocations_total{end="completed"} 1.0' in numbers
    assert 'turnwise_errors_total{code="access.unauthenticated"} 1.0' in numbers
    assert 'app="test"' in numbers
    said = process.hears("/messages 401 in ")
    assert " info    turnwise.gateway.access: POST " in said


def test_it_takes_up_what_others_left(tmp_path: Path, serve: Serve) -> None:
    """E7."""
    folder = project(tmp_path)

    async def leave() -> None:
        store = SqlSessionStore(f"sqlite:///{folder}/turnwise.db")
        message = Message(id="left", content=text_content("hi", "user"))
        await store.inbox.accept(SessionKey("test", "local", "s"), message, create=True, limit=10)
        await store.close()

    asyncio.run(leave())
    process = serve(folder)
    with process.client() as client:
        assert client.get(f"{MESSAGES}/left", params={"wait": True}).json()["text"] == "You said hi"


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ("", ["--host", "0.0.0.0"], "without gateway.auth it listens to this machine alone"),
        ("gateway: {host: '::'}\n", [], "turnwise.yaml:6:11: The gateway would let everybody in at '::'"),
        ("gateway: {origins: ['*']}\n", [], "any web page could act as an admin"),
        ("gateway: {auth: {keys: false}}\n", [], "Nobody could get in"),
        ("gateway: {auth: {jwt: {algorithms: [HS256], key: short}}}\n", [], "could be guessed"),
        ("gateway: {hots: a}\n", [], "There is no key 'hots' here."),
    ],
)
def test_what_it_refuses_to_serve(tmp_path: Path, more: str, options: list[str], said: str) -> None:
    done = turnwise("serve", "--port", "0", *options, cwd=project(tmp_path, more))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 2  # what is wrong, and what to do
    if not options:
        checked = turnwise("check", cwd=tmp_path)
        assert checked.returncode == 1
        assert said in checked.stdout + checked.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = turnwise("serve", "--port", port, cwd=project(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"It cannot listen at 127.0.0.1, port {port}: Address already in use." in done.stderr


def test_a_store_that_will_never_do(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "turnwise.db").write_bytes(b"this is no database" * 100)
    done = turnwise("serve", "--port", "0", cwd=folder)
    assert done.returncode == 3
    assert "error[store.corrupt]" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_listens_where_it_is_configured_to(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = project(tmp_path, f"gateway: {{port: {port}, host: localhost}}\n")
    process = started("serve", cwd=folder)
    assert f":{port};" in heard(process, " at http")
    heard(process, "ready after")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


async def test_it_is_not_ready_before_it_is(make_runner: Callable[..., Runner]) -> None:
    @agent
    def echo(message: str) -> str:
        return message

    async with served(make_runner(echo), ready=False) as client:
        early = await client.get("/api/v1/ready")
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        assert (await client.get("/api/v1/health")).status_code == 200
        client.front.ready.set()
        assert (await client.get("/api/v1/ready")).status_code == 200


def test_the_help_says_what_can_be_said(tmp_path: Path) -> None:
    said = turnwise("serve", "--help", cwd=tmp_path).stdout
    assert all(option in said for option in ("--host", "--port", "--config", "--log"))
