"""An HTTP client that reads no more than it may."""

import asyncio

import pytest

from turnwise.agents.adapters.a2a import bounded_client

httpx = pytest.importorskip("httpx", reason="httpx is not installed: it comes with the extra a2a")


@pytest.mark.parametrize(
    ("head", "body", "problem"),
    [
        ("", b"x" * 100, None),
        ("", b"x" * 101, "longer than 100 bytes"),
        ("Content-Encoding: gzip\r\n", b"x", "is packed"),
    ],
)
async def test_an_answer_that_is_too_long_or_packed_is_an_error(head: str, body: bytes, problem: str | None) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, bounded_client(100) as client:
        if problem is None:
            assert (await client.get(f"http://127.0.0.1:{port}/")).content == body
        else:
            with pytest.raises(httpx.RemoteProtocolError, match=problem):
                await client.get(f"http://127.0.0.1:{port}/")
