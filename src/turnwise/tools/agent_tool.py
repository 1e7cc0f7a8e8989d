"""An agent as a tool: the model calls it privately and then continues."""

from typing import Annotated

from pydantic import Field, JsonValue

from turnwise.facts.errors import AgentFailed, AgentTimeout, ToolFailed
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import ToolCall, ToolRules
from turnwise.tools.function import FunctionTool
from turnwise.tools.names import tool_name

PREFIX = "ask_"
NAMES_SHOWN = 20


class AgentTool:
    """Lets the model call another agent of the app. The result is that agent's answer; the calling agent stays active.

    The tool's name is `ask_` and the agent's name, adapted to the rules for tool names.

    Args:
        agent: The agent or its name.
        description: The purpose that the model reads; by default the agent's description, if the agent itself is given.
    """

    def __init__(self, agent: str | Agent, *, description: str | None = None) -> None:
        self._agent = agent if isinstance(agent, str) else agent.card.name
        purpose = (None if isinstance(agent, str) else agent.card.description) if description is None else description
        self._tool = FunctionTool(
            self._ask,
            name=tool_name(self._agent, PREFIX),
            description=" ".join(filter(None, [f"Asks the agent {self._agent!r} and returns its answer.", purpose])),
            rules=ToolRules(recorded=False),
        )
        self.spec, self.rules = self._tool.spec, self._tool.rules

    def __repr__(self) -> str:
        return f"AgentTool({self._agent!r})"

    def check_call(self, call: ToolCall) -> None:
        self._tool.check_call(call)

    async def run(self, call: ToolCall) -> JsonValue:
        return await self._tool.run(call)

    async def _ask(
        self,
        message: Annotated[str, Field(min_length=1, description="What it is asked, with all that it needs to know.")],
        call: ToolCall,
    ) -> str:
        context = call.context
        reachable = _reachable(context)
        if self._agent not in reachable:
            problem = "cannot be reached here" if self._agent in context.tree else "does not exist"
            others = [name for name in reachable if name != context.card.name][:NAMES_SHOWN]
            raise ToolFailed(f"The agent {self._agent!r} {problem}.", fix=f"There are: {', '.join(others) or 'no others'}.")
        try:
            return (await context.call(self._agent, message, segment=call.id)).text
        except (AgentFailed, AgentTimeout) as error:
            raise ToolFailed(f"The agent {self._agent!r} gave no answer: {error}") from error


def _reachable(context: AgentContext) -> list[str]:
    tree: AgentTree = context.tree
    return [card.name for card in tree if tree.reachable(card.name, context.message_context.roles)]
