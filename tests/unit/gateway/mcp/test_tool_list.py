"""The tools there are."""

import pytest
from mcp_types import Tool

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.mcp.request import McpRequest
from turnwise.gateway.mcp.tool_list import PAGE, agent_of_tool, standard_tools, tool_page
from turnwise.gateway.server import front_for

ANN = Caller(id="k", user="ann")
NAMES = ("ask", "ask_ask", "select", "a b", "a_b", "ask_a_b_6e2c7ab1d0", "ü", "1st", "n" * 64)


def visit(count: int = 0) -> McpRequest:
    below = [agent(name=name)(lambda message: message) for name in (*NAMES[1:], *(f"x{number}" for number in range(count)))]

    @agent(name=NAMES[0], children=below)
    def root(message: str) -> str:
        return message

    return McpRequest(front_for(Runner(root, store=SqlSessionStore("sqlite://")), GatewayConfig()), ANN)


async def test_every_agent_has_a_name_of_its_own_that_leads_to_it() -> None:
    """A16."""
    guest = visit()
    tools, after = tool_page(guest, agents=True, after=None)
    assert (len({tool.name for tool in tools}), after) == (4 + len(NAMES), None)
    assert [agent_of_tool(guest, tool.name) for tool in tools] == [None, None, None, None, *NAMES]
    for unknown in ("ask_", "ask_nobody", "nothing", "ask_a b", "", "ask_\ud800"):
        assert agent_of_tool(guest, unknown) is None


async def test_pages() -> None:
    guest = visit(250)
    found, after = [], None
    for _ in range(3):
        tools, after = tool_page(guest, agents=True, after=after)
        assert len(tools) <= PAGE + 4
        found += [tool.title for tool in tools]
    assert after is None
    assert found[4:] == [*NAMES, *(f"x{number}" for number in range(250))]
    assert tool_page(guest, agents=False, after=None)[1] is None
    for agents, unknown in ((True, "nobody"), (False, "x1")):
        with pytest.raises(RequestInvalid):
            tool_page(guest, agents=agents, after=unknown)


async def test_who_may_not_know_of_agents_has_no_tools_of_theirs() -> None:
    narrow = McpRequest(visit().front, ANN.replace(scopes=("messages:write",)))
    assert len(tool_page(narrow, agents=True, after=None)[0]) == 4


@pytest.mark.parametrize("tool", standard_tools(), ids=lambda tool: tool.name)
def test_everything_is_described(tool: Tool) -> None:
    assert tool.output_schema is not None
    shapes = tool.output_schema["$defs"]
    for schema in (tool.input_schema, tool.output_schema, *shapes.values()):
        for name, field in schema.get("properties", {}).items():
            meant = shapes[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
            assert (name, "description" in meant) == (name, True)
