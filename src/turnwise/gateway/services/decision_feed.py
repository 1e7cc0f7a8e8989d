"""Tells followers about new decisions of all processes. One reader of the store serves all followers of this process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
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
"""The most decisions of one read."""
WAITING = 5
"""The most reads that a slow follower has waiting."""

log = logging.getLogger("turnwise.gateway")


class DecisionBatch:
    """The new decisions of one read, oldest first. Followers of the same user share it, and what was written of it: so a
    hundred followers cost little more than one.
    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self.decisions = decisions
        self._written: dict[Hashable, bytes] = {}

    def written(self, view: Hashable, write: Callable[[Decision], bytes]) -> bytes:
        """Returns all decisions as bytes; `view` names what the follower may see of them."""
        found = self._written.get(view)
        if found is None:
            found = self._written[view] = b"".join(map(write, self.decisions))
        return found


class _Follower:
    """A reader of the feed."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.queue: asyncio.Queue[DecisionBatch] = asyncio.Queue(WAITING)

    def offer(self, batch: DecisionBatch) -> None:
        """Adds the batch; drops it if it is empty or the follower is too slow."""
        if batch.decisions:
            with suppress(asyncio.QueueFull):
                self.queue.put_nowait(batch)


class DecisionFeed:
    """The decisions that are made from now on. Reads the store only while somebody follows. For one event loop."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._followers: set[_Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[tuple[str, str, int], datetime] = {}

    async def follow(self, user: str | None) -> AsyncIterator[DecisionBatch | None]:
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
        """Reads new decisions every PERIOD_SECONDS until it is cancelled. Problems of the store are logged."""
        began = datetime.now(UTC)
        self._seen.clear()
        while True:
            try:
                await self._publish_new(max(began, datetime.now(UTC) - OVERLAP))
            except TurnwiseError as problem:
                log.warning("new decisions could not be read: %s", problem)
            await asyncio.sleep(PERIOD_SECONDS)

    async def _publish_new(self, since: datetime) -> None:
        """Reads the decisions since a time and gives each follower those that it has not seen and may follow."""
        filter_ = DecisionFilter(since=since)
        page = await self._runner.store.decisions.search(self._runner.app, filter=filter_, limit=MOST)
        fresh = [each for each in reversed(page.items) if _name(each) not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= since}
        self._seen |= {_name(each): each.created_at for each in fresh}
        batches: dict[str | None, DecisionBatch] = {None: DecisionBatch(fresh)}
        for follower in self._followers:
            user = follower.user
            if user not in batches:
                batches[user] = DecisionBatch([each for each in fresh if each.key.user == user])
            follower.offer(batches[user])


def _name(decision: Decision) -> tuple[str, str, int]:
    return (decision.key.user, decision.key.id, decision.sequence)
