"""Each agent as a tool of its own: named by the house's rule, for who may address it, a page at a time."""

from typing import Any

import pytest
from gateway_play import key_for, served
from mcp import Client
from mcp_client_play import MODES, WITH_AGENTS, client_of, error_from, refusal, structured, talking
from mcp_types import Tool

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig
from turnwise.tools.names import is_tool_name

AUTH = WITH_AGENTS.replace(auth=AuthConfig())
ODD = "Käse & Co: süß"


def many(count: int) -> Any:
    """A desk with so many agents below it."""
    below = [agent(name=f"a{number}")(lambda message, number=number: f"{number}: {message}") for number in range(count)]

    @agent(children=below)
    def desk() -> str:
        return "desk"

    return desk


async def tools_of(client: Client) -> tuple[list[Tool], int]:
    """All of them, and how many pages there were."""
    found: list[Tool] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = await client.list_tools(cursor=cursor)
        found, cursor, pages = [*found, *page.tools], page.next_cursor, pages + 1
    return found, pages


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_a_tool(mode: str) -> None:
    """A16: names of tools are made from agents' names without clashes."""

    @agent(name=ODD, description="Sells cheese.")
    async def cheese(context: AgentContext) -> str:
        return f"Cheese for {(await context.ask('For whom?')).text}."

    @agent(children=[cheese])
    def ask() -> str:
        return "desk"

    async with talking(ask, mode, WITH_AGENTS) as talk:
        tools, _ = await tools_of(talk.client)
        assert [tool.name for tool in tools[:5]] == ["ask", "select", "explain", "recall", "ask_ask"]
        odd = tools[5]
        assert (odd.title, is_tool_name(odd.name)) == (ODD, True)
        assert (odd.description or "").endswith("Sells cheese.")
        assert "agent" not in odd.input_schema["properties"]
        asked = structured(await talk.call(odd.name, message="hello", session="s"))
        assert (asked["agent"], asked["state"]) == (ODD, "waiting")
        call_id = asked["waits"][0]["call_id"]
        answer = structured(await talk.call(odd.name, message="ann", session="s", answer_to=call_id))
        assert answer["text"] == "Cheese for ann."
        assert structured(await talk.call("ask_ask", message="hello"))["agent"] == "ask"
        wrong = refusal(await talk.call("ask_ask", message="hello", agent="ask"))
        assert wrong["where"] == ["arguments", "agent"]


async def test_they_come_a_page_at_a_time() -> None:
    async with talking(many(250), "auto", WITH_AGENTS) as talk:
        tools, pages = await tools_of(talk.client)
        assert pages == 3
        agents = ["ask_desk", *(f"ask_a{n}" for n in range(250))]
        assert [tool.name for tool in tools] == ["ask", "select", "explain", "recall", *agents]
        assert structured(await talk.call("ask_a249", message="hi"))["text"] == "249: hi"
        error = await error_from(talk.client.list_tools(cursor="nobody"))
        assert (error.code, error.data["code"]) == (-32602, "request.invalid")


async def test_without_the_setting_they_are_not_there() -> None:
    async with talking(many(1)) as talk:
        assert [tool.name for tool in (await talk.client.list_tools()).tools] == ["ask", "select", "explain", "recall"]
        assert (await error_from(talk.call("ask_a0", message="hi"))).message == "Unknown tool: ask_a0"


async def test_a_policy_that_lets_nobody_choose_has_none() -> None:
    async with talking(many(1), "auto", WITH_AGENTS, policy="adk") as talk:
        assert len((await talk.client.list_tools()).tools) == 4
        assert refusal(await talk.call("ask", message="hi", agent="a0"))["code"] == "request.nothing_here"


async def test_they_are_those_that_the_caller_reaches() -> None:
    """C20."""

    @agent(roles=["staff"])
    def office(message: str) -> str:
        return f"office: {message}"

    @agent(children=[office])
    def desk() -> str:
        return "desk"

    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    staff, guest = await key_for(runner, user="ann", agent_roles=("staff",)), await key_for(runner, user="bob")
    blind = await key_for(runner, user="ann", agent_roles=("staff",), scopes=["messages:write"])
    async with served(runner, AUTH) as gateway:
        async with client_of(gateway.address, key=staff) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][4:] == ["ask_desk", "ask_office"]
            assert structured(await client.call_tool("ask_office", {"message": "hi"}))["text"] == "office: hi"
        async with client_of(gateway.address, key=guest) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][4:] == ["ask_desk"]
            hidden = await error_from(client.call_tool("ask_office", {"message": "hi"}))
            missing = await error_from(client.call_tool("ask_nobody", {"message": "hi"}))
            assert (hidden.code, hidden.message.replace("office", "nobody"), hidden.data) == (
                missing.code,
                missing.message,
                missing.data,
            )
        async with client_of(gateway.address, key=blind) as client:
            assert len((await client.list_tools()).tools) == 4
    await runner.close()
