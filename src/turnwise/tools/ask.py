"""The tool that asks the user a question and waits for the reply (behaviour A42)."""

from typing import Annotated

from pydantic import Field

from turnwise.ports.context import AgentContext
from turnwise.tools.function import tool


@tool(
    recorded=False,
    last=True,
    description="Asks the user a question and returns the reply. Use it when you cannot go on without something that only "
    "the user knows.",
)
async def ask_user(
    question: Annotated[str, Field(min_length=1, description="The question, as the user reads it.")], context: AgentContext
) -> str:
    return (await context.ask(question)).text
