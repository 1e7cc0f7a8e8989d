"""Over real sockets: requests that no well-meaning client sends are refused, and do no harm."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from gateway_play import DEADLINE_SECONDS, answered_raw, key_for, served

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.gateway.server import Connection

MakeRunner = Callable[..., Runner]
SEND = "/api/v1/sessions/s/messages"
JSON = {"Content-Type": "application/json"}


@agent
def echo(message: str) -> str:
    return f"You said {message}"


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, "Host: localhost", "Connection: close", *headers, "", ""]).encode("latin-1")


def posted(body: bytes, path: str = SEND) -> bytes:
    return head(f"POST {path} HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(body)}") + body


def content(text: str) -> bytes:
    """A message whose text is this piece of JSON."""
    return b'{"content": ' + text.encode() + b"}"


ODD: dict[str, bytes] = {
    "nonsense": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no method": b" / HTTP/1.1\r\n\r\n",
    "an unknown method": head("BREW /api/v1/health HTTP/1.1"),
    "a proxy's request": head("GET http://localhost/api/v1/nothing HTTP/1.1"),
    "a tunnel": head("CONNECT localhost:443 HTTP/1.1"),
    "options of all": head("OPTIONS * HTTP/1.1"),
    "another version": head("GET /api/v1/health HTTP/9.9"),
    "bytes in the path": b"GET /api/v1/sessions/\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "no UTF-8 in the path": head("GET /api/v1/sessions/%ff HTTP/1.1"),
    "NUL in the path": head("GET /api/v1/sessions/a%00b HTTP/1.1"),
    "a surrogate in the path": head("GET /api/v1/sessions/%ED%A0%80 HTTP/1.1"),
    "an overlong slash": head("GET /api/v1/..%c0%af..%c0%afetc/passwd HTTP/1.1"),
    "a way up": head("GET /../../etc/passwd HTTP/1.1"),
    "a way up, encoded": head("GET /api/v1/%2e%2e/%2e%2e/etc/passwd HTTP/1.1"),
    "two slashes": head("GET //api/v1/health HTTP/1.1"),
    "no UTF-8 in the query": head("GET /api/v1/sessions?user=%ff HTTP/1.1"),
    "NUL in the query": head("GET /api/v1/sessions?user=%00 HTTP/1.1"),
    "a long session id": head(f"GET /api/v1/sessions/{'x' * 5000} HTTP/1.1"),
    "a long URL": head(f"GET /{'x' * 70_000} HTTP/1.1"),
    "a long header": head("GET /api/v1/health HTTP/1.1", f"X-Long: {'x' * 70_000}"),
    "many headers": head("GET /api/v1/health HTTP/1.1", *(f"X-{number}: {'x' * 50}" for number in range(2000))),
    "two hosts": head("GET /api/v1/nothing HTTP/1.1", "Host: evil.example"),
    "bytes in headers": head("GET /api/v1/nothing HTTP/1.1", "Authorization: \xff\xfe", "X-Request-ID: \xff", "Accept: \xff"),
    "a broken host": b"GET /api/v1/nothing HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n",
    "a wrong length": head(f"POST {SEND} HTTP/1.1", "Content-Length: -1") + b"{}",
    "two lengths": head(f"POST {SEND} HTTP/1.1", "Content-Length: 2", "Content-Length: 3") + b"{}",
    "length and chunks": head(f"POST {SEND} HTTP/1.1", "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "a huge length": head(f"POST {SEND} HTTP/1.1", "Content-Length: 99999999999999999999999") + b"{}",
    "a wrong chunk": head(f"POST {SEND} HTTP/1.1", "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n",
    "no body": posted(b""),
    "no JSON": posted(b"{"),
    "no UTF-8": posted(b'{"content": "\xff"}'),
    "no object": posted(b"[1]"),
    "nothing": posted(b"null"),
    "a deep one": posted(b"[" * 100_000),
    "a deep message": posted(content("[" * 50_000 + "]" * 50_000)),
    "a deep context": posted(b'{"content": "a", "context": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_001),
    "no number": posted(b'{"content": "a", "deadline_seconds": NaN}'),
    "a huge number": posted(b'{"content": "a", "deadline_seconds": 1e999}'),
    "many digits": posted(b'{"content": "a", "deadline_seconds": ' + b"9" * 10_000 + b"}"),
    "half a character": posted(content(r'"\ud800"')),
    "half a character as an id": posted(rb'{"content": "a", "id": "\ud800"}'),
    "NUL as an id": posted(rb'{"content": "a", "id": "\u0000"}'),
    "another session": posted(content('"a"'), "/api/v1/sessions/%20/../messages"),
    "an unknown field": posted(b'{"content": "a", "role": "admin"}'),
}
FINE = {"a slash in an id": posted(content('"a"'), "/api/v1/sessions/%E2%82%AC%20%2e/messages"), "text": posted(content('"a"'))}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[int, bytes]]:
    """Status and body of each, sent to one gateway; and whether that still works in the end."""

    async def play() -> dict[str, tuple[int, bytes]]:
        runner = Runner(echo, store=SqlSessionStore("sqlite://"))
        async with served(runner) as client:
            found = {name: _read(await answered_raw(client.address, request)) for name, request in {**ODD, **FINE}.items()}
            found["afterwards"] = (await client.send_message("hi")).status_code, b""
        await runner.close()
        return found

    return asyncio.run(play())


def _read(answer: bytes) -> tuple[int, bytes]:
    before, _, body = answer.partition(b"\r\n\r\n")
    return int(before.split(b" ")[1]) if before else 0, body


@pytest.mark.parametrize("name", ODD)
def test_it_is_the_senders_mistake(name: str, outcomes: dict[str, tuple[int, bytes]]) -> None:
    status, body = outcomes[name]
    assert 400 <= status < 500
    assert b"Traceback" not in body
    assert b"/site-packages/" not in body


@pytest.mark.parametrize("name", [*FINE, "afterwards"])
def test_what_is_right_works(name: str, outcomes: dict[str, tuple[int, bytes]]) -> None:
    assert outcomes[name][0] == 200


def test_too_long_a_head_has_its_own_status(outcomes: dict[str, tuple[int, bytes]]) -> None:
    assert {outcomes[name][0] for name in ("a long URL", "a long header", "many headers")} == {431}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (SEND, ("code",)),
        ("/v1/chat/completions", ("error", "code")),
        ("/v1/responses", ("error", "code")),
    ],
)
async def test_too_large_a_body_in_each_protocols_form(make_runner: MakeRunner, path: str, code: tuple[str, ...]) -> None:
    async with served(make_runner(echo), GatewayConfig(body_bytes=1024)) as client:
        for body in (b'{"content": "%s"}' % (b"x" * 1024), _pieces(b"x" * 512, 4)):
            answer = await client.post(path, content=body, headers=JSON)
            found = answer.json()
            for name in code:
                found = found[name]
            assert (answer.status_code, found) == (413, "request.too_large")


async def test_a_body_that_does_not_come(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo), GatewayConfig(request_seconds=0.05)) as client:
        answer = await answered_raw(client.address, head(f"POST {SEND} HTTP/1.1", "Content-Length: 10") + b"{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"request.timeout"' in answer


async def test_a_body_that_drips(make_runner: MakeRunner) -> None:
    """It is answered while it still comes, and the answer is not lost although more is being sent."""
    async with served(make_runner(echo), GatewayConfig(request_seconds=0.05)) as client:
        async with asyncio.timeout(DEADLINE_SECONDS):
            url = httpx.URL(client.address)
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(head(f"POST {SEND} HTTP/1.1", "Transfer-Encoding: chunked").replace(b"Connection: close\r\n", b""))
            status = asyncio.create_task(reader.readline())
            while not status.done():
                writer.write(b"1\r\n \r\n")
                await asyncio.wait({status}, timeout=0.01)
            assert (await status).startswith(b"HTTP/1.1 408 ")
            writer.write(b"1\r\n \r\n0\r\n\r\n")
            await writer.drain()
            assert b'"code":"request.timeout"' in await reader.readuntil(b"}")
            # Whoever takes the rest of what was sent to its end is served on.
            writer.write(head("GET /api/v1/health HTTP/1.1"))
            assert b"HTTP/1.1 200 " in await reader.read()
            writer.close()


class Impatient(Connection):
    """Waits for next to nothing."""

    head_seconds = linger_seconds = 0.05


@pytest.mark.parametrize("begun", [b"", b"GET /api/v1/health HT", b"GET / HTTP/1.1\r\nHost: local"])
async def test_a_head_that_does_not_come(make_runner: MakeRunner, begun: bytes) -> None:
    async with served(make_runner(echo), connection=Impatient) as client:
        assert await answered_raw(client.address, begun) == b""


async def test_the_rest_of_a_refused_body_that_does_not_come(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo), GatewayConfig(body_bytes=1024), connection=Impatient) as client:
        kept = head(f"POST {SEND} HTTP/1.1", "Content-Length: 99999").replace(b"Connection: close\r\n", b"")
        assert (await answered_raw(client.address, kept + b"{")).startswith(b"HTTP/1.1 413 ")


async def test_of_who_is_not_let_in_no_body_is_read(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        # It is never sent, and nobody waits for it.
        request = head(f"POST {SEND} HTTP/1.1", "Content-Length: 1000000")
        assert (await answered_raw(client.address, request)).startswith(b"HTTP/1.1 401 ")
        invalid = await client.post(SEND, content=b"{", headers=JSON)
        assert invalid.status_code == 401
        ann = await key_for(runner)
        assert (await client.post(SEND, content=b"{", headers={**JSON, **ann})).status_code == 422


async def test_the_log_has_no_ids_queries_or_secrets(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "turnwise")
    runner = make_runner(echo)
    ann = await key_for(runner)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        await client.send_message("my words", "my-session", headers=ann, params={"user": "ann"})
        await client.get("/api/v1/my-path", headers=ann, params={"q": "my-query"})
    ours = [record for record in caplog.records if record.name.startswith(("turnwise", "uvicorn"))]
    lines = [record.getMessage().split(" in ")[0] for record in ours]
    assert f"POST {SEND.replace('/s/', '/{session_id}/')} 200" in lines
    assert "GET /api/v1/… 404" in lines
    told = json.dumps([str(record.__dict__) for record in ours])
    for secret in ("my words", "my-session", "my-path", "my-query", ann["Authorization"].split("_", 2)[2]):
        assert secret not in told


async def _pieces(piece: bytes, times: int) -> AsyncIterator[bytes]:
    for _ in range(times):
        yield piece
