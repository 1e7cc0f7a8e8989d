"""The tool that transfers the conversation to another agent (behaviours A35 to A40)."""

from typing import Annotated

from pydantic import Field

from turnwise.facts.errors import ToolFailed, TransferRefused
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, ToolRules
from turnwise.tools import names
from turnwise.tools.function import FunctionTool

NAME = names.TRANSFER

_DESCRIPTION = """\
Hands the conversation to another agent, who answers from then on. Use it when one of these fits the request better:
"""
_RULES = ToolRules(recorded=False, last=True, private=True)


def transfer_tool(context: AgentContext) -> Tool | None:
    """Returns the transfer tool of this turn, or None if there is no target."""
    targets = context.transfer_targets
    if not targets:
        return None

    async def transfer(
        agent: Annotated[str, Field(description="Who is to answer.", json_schema_extra={"enum": list(targets)})],
        context: AgentContext,
        message: Annotated[
            str | None,
            Field(description="What they are to answer instead of the user's message. Leave it out as a rule."),
        ] = None,
    ) -> str:
        try:
            await context.transfer(agent, message=message or None)
        except TransferRefused as refused:
            raise ToolFailed(refused.problem, fix=refused.fix) from None
        return f"{agent} takes over."

    return FunctionTool(transfer, name=NAME, description=transfer_description(context), rules=_RULES)


def transfer_description(context: AgentContext) -> str:
    """Returns the tool's description, with the current targets and their descriptions."""
    listed = (_line(name, context.tree.card(name).description) for name in context.transfer_targets)
    return _DESCRIPTION + "\n".join(listed)


def _line(name: str, description: str) -> str:
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"
