"""A gateway that listens. (What it answers: tests/integration/gateway.)"""

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import AuthConfig, GatewayConfig, JwtConfig
from turnwise.gateway.server import Serving, bound_socket, front_for, serving
from turnwise.stores.artifacts.local import OnDiskArtifactStore


@agent
def echo(message: str) -> str:
    return message


def runner() -> Runner:
    return Runner(echo, store=SqlSessionStore("sqlite://"))


async def alive(address: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{address}/api/v1/health")).status_code


async def test_any_free_port_is_told() -> None:
    async with serving(front_for(runner(), GatewayConfig())) as gateway:
        assert gateway.address == gateway.address_here
        assert gateway.address.startswith("http://127.0.0.1:")
        assert await alive(gateway.address) == 200
    with pytest.raises(httpx.ConnectError):
        await alive(gateway.address)


async def test_an_address_of_the_newer_kind() -> None:
    async with serving(front_for(runner(), GatewayConfig()), "::1") as gateway:
        assert gateway.address.startswith("http://[::1]:")
        assert await alive(gateway.address) == 200


@pytest.mark.parametrize(("host", "here"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
async def test_where_it_is_reached_from_here_if_it_listens_everywhere(host: str, here: str) -> None:
    gateway = Serving(front_for(runner(), GatewayConfig()), bound_socket(host, 0))
    assert here in gateway.address_here
    assert here not in gateway.address
    await gateway.end()


def test_an_address_that_cannot_be_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"cannot listen at 127\.0\.0\.1, port {port}: Address already in use"):
            bound_socket("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"cannot listen at 192\.0\.2\.1, port 0: Cannot assign"):
        bound_socket("192.0.2.1", 0)


async def test_nobody_is_served_by_what_is_configured_wrongly() -> None:
    with pytest.raises(ConfigError, match=r"without gateway\.auth it listens to this machine alone"):
        front_for(runner(), GatewayConfig(host="0.0.0.0"))
    with pytest.raises(ConfigError, match="could be guessed"):
        front_for(runner(), GatewayConfig(auth=AuthConfig(jwt=JwtConfig(algorithms=("HS256",), key="short"))))


async def test_one_that_never_began_gives_its_socket_back() -> None:
    at = bound_socket("127.0.0.1", 0)
    port = at.getsockname()[1]
    await Serving(front_for(runner(), GatewayConfig()), at).end()
    bound_socket("127.0.0.1", port).close()


async def began(url: str, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which that was sent, with the smallest memory for what comes."""
    address = httpx.URL(url)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (address.host, address.port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    writer.write(request)
    await writer.drain()
    return reader, writer


async def test_who_still_waits_at_the_end_is_told_to_come_again() -> None:
    async with serving(front_for(runner(), GatewayConfig())) as gateway:
        head = b"POST /api/v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
        reader, writer = await began(gateway.address, head + b"Expect: 100-continue\r\n\r\n")
        await reader.readuntil(b"100 Continue\r\n\r\n")
        await gateway.end(0)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"request.closing"' in answer
        writer.close()


async def test_who_does_not_take_his_answer_holds_up_nobody(tmp_path: Path) -> None:
    store, artifacts = SqlSessionStore("sqlite://"), OnDiskArtifactStore(tmp_path)
    async with serving(front_for(Runner(echo, store=store, artifacts=artifacts), GatewayConfig())) as gateway:
        path = "/api/v1/sessions/s/artifacts/large"
        async with httpx.AsyncClient(base_url=gateway.address, trust_env=False) as client:
            await client.post("/api/v1/sessions", json={"id": "s"})
            assert (await client.put(path, content=bytes(16 * 1024 * 1024))).is_success
        reader, writer = await began(gateway.address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200" in await reader.readline()
        async with asyncio.timeout(30):
            await gateway.end(0)
        writer.close()
