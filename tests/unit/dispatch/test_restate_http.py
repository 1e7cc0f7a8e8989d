"""The HTTP client of wake-ups, against servers that answer well, late, and not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

pytest.importorskip("httptools")

from turnwise.dispatch import restate_client
from turnwise.dispatch.restate_client import HttpClient, NoAnswer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers each request with the bytes of `answer`; `requests` has the requests of each connection."""

    def __init__(self, answer: bytes, *, most: int = 99) -> None:
        self.answer, self.most, self.requests = answer, most, list[list[bytes]]()
        self.tasks: list[asyncio.Task[object]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        mine: list[bytes] = []
        self.requests.append(mine)
        while len(mine) < self.most and (head := await _head(reader)):
            mine.append(head + await reader.readexactly(1))
            writer.write(self.answer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def client_of(serve: Server) -> AsyncIterator[HttpClient]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await asyncio.gather(*serve.tasks)


async def test_a_connection_is_kept() -> None:
    server = Server(OK)
    async with client_of(server) as client:
        assert [await client.request("POST", "/a", b"1", {"idempotency-key": "7"}) for _ in range(3)] == [(200, b"{}")] * 3
    ((first, *more),) = server.requests
    assert len(more) == 2
    assert first.startswith(b"POST /a HTTP/1.1\r\n")
    assert b"idempotency-key: 7\r\n" in first.lower()


async def test_requests_at_once_have_connections_each() -> None:
    server = Server(OK)
    async with client_of(server) as client:
        await asyncio.gather(*(client.request("POST", "/a", b"1") for _ in range(3)))
        await client.request("POST", "/a", b"1")
    assert sorted(map(len, server.requests)) == [1, 1, 2]


async def test_a_closed_connection_is_replaced() -> None:
    """Also if the server says nothing of it."""
    server = Server(OK, most=1)
    async with client_of(server) as client:
        for _ in range(3):
            assert (await client.request("POST", "/a", b"1"))[0] == 200
    assert list(map(len, server.requests)) == [1, 1, 1]


async def test_a_server_may_close_and_send_in_chunks() -> None:
    answer = b"HTTP/1.1 404 No\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    server = Server(answer)
    async with client_of(server) as client:
        assert [await client.request("POST", "/", b"1") for _ in range(2)] == [(404, b"abc")] * 2
    assert list(map(len, server.requests)) == [1, 1]


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"])
async def test_no_answer_is_an_error(answer: bytes) -> None:
    async with client_of(Server(answer, most=1)) as client:
        with pytest.raises(NoAnswer):
            await client.request("POST", "/", b"1")


async def test_nobody_answers_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restate_client, "SECONDS", 0.05)
    async with client_of(Server(b"")) as client:
        with pytest.raises(NoAnswer, match="takes too long"):
            await client.request("POST", "/", b"1")


async def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restate_client, "MOST_BYTES", 1)
    async with client_of(Server(OK)) as client:
        with pytest.raises(NoAnswer, match="too long"):
            await client.request("POST", "/", b"1")
