"""Letting the agents of a runner that closes give up what they hold."""

import asyncio
import inspect
import logging
from collections.abc import Iterable

from turnwise.ports.agent import Agent
from turnwise.runner.record.closing import told

CLOSE_SECONDS = 30.0
"""How long one agent may take for it."""

log = logging.getLogger("turnwise.runner")


async def close_agents(agents: Iterable[Agent]) -> None:
    """Awaits `close` of every agent that has one, side by side. What it raises, or that it hangs, is logged."""
    await asyncio.gather(*(_close(agent) for agent in agents if inspect.iscoroutinefunction(getattr(agent, "close", None))))


async def _close(agent: Agent) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()  # type: ignore[attr-defined]
    except Exception as error:
        log.error("Agent %r was not closed: %s: %s", agent.card.name, type(error).__name__, told(error))
