"""Agents in code, for the tests of definitions."""

from typing import Any

from turnwise import AgentContext, agent


@agent
def desk(message: str) -> str:
    return "desk"


@agent(patterns=["parcel"])
def parcels(message: str) -> str:
    return "parcels"


def asker(word: str = "one") -> Any:
    """An agent that waits for a reply, and answers with its word."""

    async def ask(context: AgentContext) -> str:
        reply = await context.ask("What is the number?")
        return f"{word}: {reply.text}"

    return ask
