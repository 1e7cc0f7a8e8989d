"""Tells followers about new decisions of all processes. One reader of the store serves all followers of this process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from turnwise.facts.errors import TurnwiseError
from turnwise.ports.decisions import Decision, DecisionFilter
from turnwise.runner import Runner

PERIOD_SECONDS = 0.5
"""The interval of the reads while there are followers."""
OVERLAP = timedelta(seconds=3)
"""Each read goes back so far, because a decision is stored a moment after its time."""
MOST = 100
"""The most decisions of one read, and the most that a slow follower has waiting."""

log = logging.getLogger("turnwise.gateway")


class _Follower:
    """A reader of the feed."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.queue: asyncio.Queue[Decision] = asyncio.Queue(MOST)

    def offer(self, decision: Decision) -> None:
        """Adds the decision if the follower may see it; drops it if the follower is too slow."""
        if self.user in (None, decision.key.user):
            with suppress(asyncio.QueueFull):
                self.queue.put_nowait(decision)


class DecisionFeed:
    """The decisions that are made from now on. Reads the store only while somebody follows. For one event loop."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._followers: set[_Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[tuple[str, str, int], datetime] = {}

    async def follow(self, user: str | None) -> AsyncIterator[Decision | None]:
        """Yields None once it follows, then new decisions of the user, or of all users if `user` is None, oldest first."""
        follower = _Follower(user)
        self._followers.add(follower)
        if self._task is None:
            self._task = asyncio.create_task(self._read())
        try:
            yield None
            while True:
                yield await follower.queue.get()
        finally:
            self._followers.discard(follower)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read(self) -> None:
        began = datetime.now(UTC)
        self._seen.clear()
        while True:
            try:
                await self._tell(max(began, datetime.now(UTC) - OVERLAP))
            except TurnwiseError as problem:
                log.warning("new decisions could not be read: %s", problem)
            await asyncio.sleep(PERIOD_SECONDS)

    async def _tell(self, since: datetime) -> None:
        filter_ = DecisionFilter(since=since)
        page = await self._runner.store.decisions.search(self._runner.app, filter=filter_, limit=MOST)
        for decision in reversed(page.items):
            name = (decision.key.user, decision.key.id, decision.sequence)
            if name not in self._seen:
                self._seen[name] = decision.created_at
                for follower in self._followers:
                    follower.offer(decision)
        self._seen = {name: at for name, at in self._seen.items() if at >= since}
