"""Clients of MCP learn that the list of tools has changed, and so do readers of the other lists (F2)."""

import asyncio
from pathlib import Path

import pytest
from definition_play import serving_app
from gateway_play import key_for
from mcp import Client
from mcp_client_play import client_of

GREETER = {"made_by": {"kind": "reply", "templates": [{"text": ["Hello."]}]}}


async def tools_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def test_a_listener_is_told_of_each_change_of_the_agents(tmp_path: Path) -> None:
    async with serving_app(tmp_path) as (app, client, admin), client_of(client.address, key=admin) as mcp:
        assert mcp.server_capabilities.tools is not None
        assert mcp.server_capabilities.tools.list_changed
        resources = mcp.server_capabilities.resources
        assert resources is not None
        assert (resources.subscribe, resources.list_changed) == (False, False)
        async with mcp.listen(tools_list_changed=True, resources_list_changed=True) as changes:
            for number, status in enumerate(("active", "retired")):
                if status == "active":
                    url, headers = "/api/v1/agents/greeter", {**admin, "If-Match": f'"{number}"'}
                    assert (await client.put(url, json=GREETER, headers=headers)).status_code == 200
                else:
                    await client.delete("/api/v1/agents/greeter", headers={**admin, "If-Match": f'"{number}"'})
                await app.serve_definitions()
                async with asyncio.timeout(10):
                    assert type(await anext(aiter(changes))).__name__ == "ToolsListChanged"
                assert ("ask_greeter" in await tools_of(mcp)) == (status == "active")
                models = (await client.get("/v1/models", headers=admin)).json()["data"]
                assert ("greeter" in [each["id"] for each in models]) == (status == "active")
                card = (await client.get("/.well-known/agent-card.json", headers=admin)).json()
                assert ("greeter" in [each["name"] for each in card["skills"]]) == (status == "active")


async def test_streams_end_with_the_process_and_with_the_client(tmp_path: Path) -> None:
    async with serving_app(tmp_path) as (app, client, _):
        before = len(app.runner.sets._listeners)
        user = await key_for(app.runner)
        async with client_of(client.address, key=user) as mcp, mcp.listen(tools_list_changed=True) as changes:
            client.front.closing.set()
            async with asyncio.timeout(10):
                assert [each async for each in changes] == []
    assert len(app.runner.sets._listeners) < before


@pytest.mark.parametrize("mode", ["legacy"])
async def test_earlier_versions_are_promised_nothing(tmp_path: Path, mode: str) -> None:
    async with serving_app(tmp_path) as (_, client, admin), client_of(client.address, mode, key=admin) as mcp:
        assert mcp.server_capabilities.tools is not None
        assert not mcp.server_capabilities.tools.list_changed
