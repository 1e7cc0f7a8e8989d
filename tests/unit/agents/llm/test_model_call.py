"""What instructions and tools leave of an agent's budget."""

import pytest

from turnwise.agents.llm.model_call import Prompt, message_budget, tokens_of_tool
from turnwise.facts.errors import AgentFailed
from turnwise.ports.tool import ToolSpec
from turnwise.transcript.view import Budget


def tool(name: str, words: int) -> ToolSpec:
    return ToolSpec(name=name, description="word " * words, parameters={"type": "object"})


def test_instructions_and_tools_are_taken_from_the_budget_of_tokens() -> None:
    empty, tools = Prompt("", "", ""), [tool("a", 10), tool("b", 100)]
    plain = message_budget(Budget(1_000, 7), empty, [], "clerk")
    assert plain.events == 7
    with_tools = message_budget(Budget(1_000, 7), empty, tools, "clerk")
    assert plain.tokens - with_tools.tokens == sum(map(tokens_of_tool, tools))
    assert tokens_of_tool(tools[1]) > 160
    prompt = Prompt("i" * 300, "m" * 90, "s" * 30)
    assert plain.tokens - message_budget(Budget(1_000, 7), prompt, [], "clerk").tokens == 100 + 30 + 10


def test_marks_that_may_need_to_be_explained_are_no_error() -> None:
    assert message_budget(Budget(100, 7), Prompt("", "m" * 900, ""), [], "clerk") == Budget(0, 7)


def test_what_leaves_no_room_is_told_with_its_size() -> None:
    with pytest.raises(
        AgentFailed, match=r"Of the 500 tokens .* agent 'clerk' .* its 2 tools [\d,]+: .* 'large' with"
    ) as refused:
        message_budget(Budget(500, 7), Prompt("Be kind.", "", ""), [tool("small", 1), tool("large", 400)], "clerk")
    assert "history" in refused.value.fix
    with pytest.raises(AgentFailed, match=r"its instructions take 504 and its 0 tools 0: there is no room"):
        message_budget(Budget(500, 7), Prompt("i" * 1_500, "", ""), [], "clerk")
