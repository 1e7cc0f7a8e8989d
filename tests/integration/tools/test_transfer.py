from typing import Any

import pytest
from tool_play import called, turn

from turnwise import AgentContext, agent
from turnwise.facts.errors import ToolFailed
from turnwise.ports.tool import Tool, ToolRules
from turnwise.tools.built_in import transfer_tool


@agent(description="Takes\n  money.")
def billing(message: str) -> str:
    return f"billing: {message}"


@agent(name="Größe A")
def sizes() -> str:
    return "sizes"


async def tool_in(context: AgentContext) -> Tool:
    tool = transfer_tool(context)
    assert tool is not None
    return tool


async def test_the_model_sees_whom_it_may_hand_over_to() -> None:
    """A35: the targets in the tree's order, with what they are for."""
    seen: list[Tool] = []

    async def work(context: AgentContext) -> str:
        seen.append(await tool_in(context))
        return "done"

    await turn(work, [sizes, billing])
    spec: Any = seen[0].spec
    assert spec.name == "transfer_to_agent"
    assert spec.parameters["properties"]["agent"]["enum"] == ["Größe A", "billing"]
    assert spec.parameters["required"] == ["agent"]
    assert spec.description.endswith("\n- Größe A\n- billing: Takes money.")
    assert seen[0].rules == ToolRules(False, False, None, False, True, True)


async def test_without_targets_there_is_no_tool() -> None:
    """A35."""
    seen: list[Tool | None] = []

    async def work(context: AgentContext) -> str:
        seen.append(transfer_tool(context))
        return "done"

    await turn(work)
    assert seen == [None]


@pytest.mark.parametrize(("message", "answer"), [({}, "hello"), ({"message": None}, "hello"), ({"message": "pay 3"}, "pay 3")])
async def test_the_floor_goes_there(message: dict[str, Any], answer: str) -> None:
    """A36, A39."""

    async def work(context: AgentContext) -> str:
        return str(await called(await tool_in(context), context, agent="billing", **message))

    result = await turn(work, [sizes, billing])
    assert result.text == f"billing takes over.\nbilling: {answer}"


async def test_an_unknown_target_is_told_with_those_that_are_allowed() -> None:
    """A37; and A40: of two the first wins."""
    told: list[str] = []

    async def work(context: AgentContext) -> str:
        tool = await tool_in(context)
        for target in ("Billing dept", "desk", "billing", "Größe A", "x" * 500 + "\n"):
            try:
                await called(tool, context, agent=target)
            except ToolFailed as failed:
                told.append(str(failed))
        return "over to billing"

    result = await turn(work, [sizes, billing])
    assert result.events[-1].author == "billing"
    assert told[0] == "'desk' cannot hand over to 'Billing dept': no agent has that name. Allowed targets: Größe A, billing."
    assert "the tree does not permit it. Allowed targets: Größe A, billing." in told[1]
    assert "the floor goes to 'billing' already" in told[2]
    assert f"cannot hand over to '{'x' * 64}'…: no agent has that name." in told[3]
