"""How tests talk to a gateway, or to a process, with the Model Context Protocol's own client."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
from gateway_play import Served, served
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents

from turnwise import Runner, SqlSessionStore
from turnwise.facts.gateway import GatewayConfig, McpConfig, Protocols

MODES = ("auto", "legacy")
"""The newest version of the protocol, and the newest of those with a handshake."""
WITH_AGENTS = GatewayConfig(protocols=Protocols(mcp=McpConfig(on=True, agents=True)))


class Talk(NamedTuple):
    """A gateway that is served, the runner behind it, and a client."""

    client: Client
    gateway: Served
    runner: Runner

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """What that tool gives."""
        return await self.client.call_tool(tool, arguments)

    async def ask(self, message: str, **arguments: Any) -> dict[str, Any]:
        """What `ask` gives for programs."""
        return structured(await self.call("ask", message=message, **arguments))

    async def read(self, uri: str) -> Any:
        """The JSON that can be read there."""
        (found,) = (await self.client.read_resource(uri)).contents
        assert isinstance(found, TextResourceContents)
        return json.loads(found.text)


@asynccontextmanager
async def talking(root: Any, mode: str = "auto", config: GatewayConfig | None = None, **options: Any) -> AsyncIterator[Talk]:
    """A gateway in front of that agent, and a client. Options are the runner's."""
    runner = Runner(root, **{"store": SqlSessionStore("sqlite://"), **options})
    try:
        async with served(runner, config) as gateway, client_of(gateway.address, mode) as client:
            yield Talk(client, gateway, runner)
    finally:
        await runner.close()


@asynccontextmanager
async def client_of(
    address: str, mode: str = "auto", key: Mapping[str, str] | None = None, path: str = "/mcp", **options: Any
) -> AsyncIterator[Client]:
    """A client of that gateway, with these headers."""
    async with httpx2.AsyncClient(headers=dict(key or {}), timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{address}{path}", http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            yield client


def structured(result: CallToolResult) -> dict[str, Any]:
    """What a result holds for programs."""
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def texts(result: CallToolResult) -> list[str]:
    """What it holds for models."""
    return [each.text for each in result.content if isinstance(each, TextContent)]


def refusal(result: CallToolResult) -> dict[str, Any]:
    """Why a tool gave nothing, for programs."""
    assert result.is_error, result
    found: dict[str, Any] = (result.meta or {})["turnwise/error"]
    return found


async def error_from(awaited: Any) -> MCPError:
    """The error that this ends with."""
    try:
        gave = await awaited
    except MCPError as error:
        return error
    raise AssertionError(f"It gave {gave}.")
