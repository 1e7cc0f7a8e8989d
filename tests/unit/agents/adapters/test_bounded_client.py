"""An HTTP client that reads no more than it may, and reaches no address that a guard refuses."""

import asyncio
from collections.abc import Sequence

import pytest

from turnwise.access.address_guard import AddressGuard
from turnwise.agents.adapters.bounded_client import bounded_client

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


def _resolving(*answers: Sequence[str], private: bool) -> tuple[AddressGuard, list[str]]:
    """A guard for whom a host has other addresses at each lookup, and the hosts that were looked up."""
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return AddressGuard(private=private, resolve=resolve), asked


async def test_a_request_goes_to_the_address_that_was_checked() -> None:
    """F2: the name stays in the request; an address that does not answer is followed by the next."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    guard, asked = _resolving(["127.0.0.2", "127.0.0.1"], private=True)
    async with server, bounded_client(100, guard) as client:
        reply = await client.get(f"http://agent.example:{port}/card?x=1")
    assert (reply.content, asked) == (b"ok", ["agent.example"])
    head = seen[0].decode().lower()
    assert head.startswith("get /card?x=1 ")
    assert f"host: agent.example:{port}\r\n" in head


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://agent.example/", "http://agent.example:22/"])
async def test_an_address_that_the_guard_refuses_is_not_reached(url: str) -> None:
    """F2: also when the host had a public address before."""
    guard, asked = _resolving(["10.0.0.1"], private=False)
    async with bounded_client(100, guard) as client:
        with pytest.raises(httpx.ConnectError, match=r"not public|reserved"):
            await client.get(url)
    assert len(asked) == (":22" not in url)
