"""MCP servers over streamable HTTP: real ones on this machine, of today's protocol and of the one before."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_play
import pytest
from tool_play import called, until

from turnwise.facts.errors import ToolFailed
from turnwise.ports.tool import Tool
from turnwise.tools.mcp_toolset import McpServer

NO_CONTEXT: Any = None


class Place:
    """A port of this machine where the server runs, or does not."""

    def __init__(self, *switches: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self._switches = switches
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp?key=query-secret"

    async def start(self) -> None:
        command = [sys.executable, mcp_play.__file__, "--port", str(self.port), *self._switches]
        self._process = subprocess.Popen(command)  # noqa: ASYNC220 - a moment
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self._process = None


@pytest.fixture(params=[(), ("--old",)], ids=["today", "before"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(*request.param)
    yield place
    asyncio.run(place.kill())


async def by_name(server: McpServer) -> Mapping[str, Tool]:
    return {tool.spec.name: tool for tool in await server.tools(NO_CONTEXT)}


async def test_tools_changes_and_restarts(place: Place) -> None:
    await place.start()
    server = McpServer(url=place.url, headers={"Authorization": "Bearer right"}, connect_seconds=60)
    tools = await by_name(server)
    assert await called(tools["weather"], city="Ulm") == {"city": "Ulm", "degrees": 21}
    with pytest.raises(ToolFailed, match="fail"):
        await called(tools["fail"], why="reasons")
    await called(tools[next(name for name in tools if name.startswith("admin_"))])

    async def has_one_more() -> bool:
        return len(await by_name(server)) == len(tools) + 1

    await until(has_one_more)
    first = await called(tools["process"])
    await place.kill()
    await asyncio.sleep(0.1)
    await place.start()
    assert await called(tools["process"]) != first
    assert (await by_name(server)).keys() == tools.keys()
    await server.close()


async def test_a_server_that_dies_in_a_call_and_stays_away(place: Place) -> None:
    await place.start()
    server = McpServer(url=place.url, connect_seconds=60)
    tools = await by_name(server)
    call = asyncio.create_task(called(tools["sleep"], seconds=60))
    await asyncio.sleep(0.2)
    await place.kill()
    with pytest.raises(ToolFailed, match=r"'127.0.0.1' went away during the call.*Whether it did anything"):
        await call
    for _ in range(2):
        with pytest.raises(ToolFailed, match=r"'127.0.0.1' cannot be reached: .*failed") as failed:
            await called(tools["process"])
    assert "query-secret" not in str(failed.value)
    await place.start()
    assert await called(tools["shout"], text="back") == "BACK"
    await server.close()


async def test_a_server_that_refuses_the_key() -> None:
    place = Place()
    await place.start()
    server = McpServer(url=place.url, headers={"Authorization": "Bearer wrong"}, connect_seconds=60)
    with pytest.raises(ToolFailed, match=r"cannot be reached: .* \(HTTP 401\)\.") as failed:
        await server.tools(NO_CONTEXT)
    assert "wrong" not in str(failed.value) + repr(server)
    await server.close()
    await place.kill()


async def test_a_place_that_takes_connections_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = McpServer(url=f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", connect_seconds=0.3)
        with pytest.raises(ToolFailed, match=r"cannot be reached: no answer within 0.3 s\."):
            await server.tools(NO_CONTEXT)
        await server.close()
