"""What tests of busy sessions share: an agent that holds one message, and where a message stands."""

import asyncio
from collections.abc import Callable

from runner_play import key

from turnwise import Runner, agent
from turnwise.agents.function import FunctionAgent

MakeRunner = Callable[..., Runner]


class SlowGate:
    """An agent that holds the message `slow` until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()

        @agent
        async def gated(message: str) -> str:
            if message == "slow":
                self.began.set()
                await self.go.wait()
            return f"answer to {message}"

        self.agent: FunctionAgent = gated


async def state_of(runner: Runner, message_id: str) -> str:
    receipt = await runner.store.inbox.receipt(key(), message_id)
    return receipt.state if receipt else "unknown"
