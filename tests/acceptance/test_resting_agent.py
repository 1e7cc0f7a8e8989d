"""An agent whose surroundings fail rests for every process of the store, seen through the public names alone."""

import asyncio
from pathlib import Path

from turnwise import ProcessConfig, Runner, agent
from turnwise.testing import user_key

PROCESS = ProcessConfig(recovery_seconds=0.05)


def make(url: str) -> Runner:
    """One process of the app."""

    @agent(patterns=["rain"])
    async def weather(message: str) -> str:
        raise ConnectionRefusedError("no route")

    @agent(children=[weather])
    async def desk(message: str) -> str:
        return "ask me later"

    return Runner(desk, store=url, process=PROCESS)
