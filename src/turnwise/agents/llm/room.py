"""How much of the conversation a model can be sent beside its instructions and its tools. Pure."""

from collections.abc import Sequence

from turnwise.agents.llm.prompt import Prompt
from turnwise.facts.errors import AgentFailed
from turnwise.ports.tool import ToolSpec
from turnwise.transcript.sizes import CALL_TOKENS, PART_TOKENS, as_text, tokens_of
from turnwise.transcript.view import Budget


def room(budget: Budget, prompt: Prompt, tools: Sequence[ToolSpec], agent: str) -> Budget:
    """What the agent's budget leaves for the messages, by estimate; there is always room to explain the marks in them.

    AgentFailed says what takes how much when instructions and tools alone take all of it.
    """
    told = tokens_of(prompt.own) + tokens_of(prompt.situation) + PART_TOKENS
    offered = [tokens_of_tool(tool) for tool in tools]
    left = budget.tokens - told - sum(offered)
    if left > 0:
        return budget._replace(tokens=max(0, left - tokens_of(prompt.marks)))
    problem = (
        f"Of the {budget.tokens:,} tokens that the model of agent {agent!r} may be sent, its instructions take {told:,} and "
        f"its {len(tools)} tools {sum(offered):,}: there is no room for the conversation."
    )
    if tools:
        size, largest = max(zip(offered, (tool.name for tool in tools), strict=True))
        problem += f" The largest tool is {largest!r} with {size:,}."
    raise AgentFailed(problem, fix="Raise the tokens of its history, shorten its instructions, or give it fewer tools.")


def tokens_of_tool(tool: ToolSpec) -> int:
    """The estimate for a tool as a model is shown it."""
    return CALL_TOKENS + sum(tokens_of(text) for text in (tool.name, tool.description, as_text(tool.parameters)))
