"""A message on its way through the runner."""

import asyncio

from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.runner.invocation import Invocation


class Job:
    """One message, how it is to be run, and the handle its caller holds."""

    def __init__(self, key: SessionKey, message: Message, config: RunConfig) -> None:
        self.key, self.message, self.config = key, message, config
        self.queued = False
        """Whether the message is in the inbox."""
        self.invocation = Invocation(key, message.id)
        self._accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def accept(self) -> None:
        """The message is stored."""
        if not self._accepted.done():
            self._accepted.set_result(None)

    def fail(self, problem: BaseException) -> None:
        """It will not be answered: whoever waits for its acceptance, or reads, gets the problem."""
        if not self._accepted.done():
            self._accepted.set_exception(problem)
        self.invocation.feed.close(problem)

    async def accepted(self) -> None:
        """Returns when the message is stored; raises why it cannot be."""
        await asyncio.shield(self._accepted)
