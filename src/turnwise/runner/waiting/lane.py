"""One session's messages in this process."""

import asyncio

from turnwise.facts.sessions import SessionKey
from turnwise.runner.message.job import Job


class Lane:
    """Who waits, who is answered, and the task that works them off.

    door: keeps arrivals in order while one of them is being accepted. users: how many arrivals hold on to the lane.
    waiting: jobs whose messages are in the inbox, by the message's id. looks_elsewhere: nothing runs here, another process
    holds it. closing: what others left is not taken up any more.
    """

    def __init__(self, key: SessionKey, *, closing: bool) -> None:
        self.key = key
        self.door = asyncio.Lock()
        self.users = 0
        self.waiting: dict[str, Job] = {}
        self.current: Job | None = None
        self.task: asyncio.Task[None] | None = None
        self.looks_elsewhere = False
        self.closing = closing

    @property
    def is_busy(self) -> bool:
        """Whether a task works here."""
        return self.task is not None

    @property
    def is_unused(self) -> bool:
        return self.users == 0 and self.task is None
