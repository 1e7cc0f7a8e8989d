"""Prunes the data that the rules of retention no longer keep: as a whole pass, or step by step in the background."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime

from turnwise.facts.errors import ConfigError
from turnwise.facts.retention import Retention
from turnwise.ports.retention import PrunableStore
from turnwise.ports.stores import ArtifactStore


class Pruning:
    """Prunes an app's data. Sessions in use and users on hold are spared.

    Args:
        store: The session store.
        artifacts: The artifacts of deleted sessions are deleted here.
        app: The app.
        retention: The rules.
        now: The time.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: object,
        artifacts: ArtifactStore | None,
        app: str,
        retention: Retention,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not retention.is_empty and not isinstance(store, PrunableStore):
            raise ConfigError(
                f"A {type(store).__name__} cannot prune old data.", fix="Leave out `retention`, or use a SQL session store."
            )
        self._store = store if isinstance(store, PrunableStore) else None
        self._artifacts, self._app, self._retention = artifacts, app, retention
        self._now, self._clock = now, clock
        self._after: str | None = None
        self._next_pass = clock()

    async def step_when_due(self) -> None:
        """Runs the next step of a pass, if one is due. After the last step, the next pass is due in `every_seconds`."""
        if self._retention.is_empty or self._clock() < self._next_pass:
            return
        _, self._after = await self._step(self._after, dry_run=False)
        if self._after is None:
            self._next_pass = self._clock() + self._retention.every_seconds

    async def whole_pass(self, *, dry_run: bool = False) -> AsyncIterator[Mapping[str, int]]:
        """Runs a whole pass. Yields the counts so far after each step."""
        total: Counter[str] = Counter()
        after: str | None = None
        while True:
            counts, after = await self._step(after, dry_run=dry_run)
            total.update(counts)
            yield dict(total)
            if after is None:
                return

    async def _step(self, after: str | None, *, dry_run: bool) -> tuple[Mapping[str, int], str | None]:
        if self._store is None:
            return {}, None
        pruned = await self._store.prune(self._app, self._retention, now=self._now(), after=after, dry_run=dry_run)
        if self._artifacts is not None and not dry_run:
            for key in pruned.sessions:
                await self._artifacts.delete_session(key)
        return pruned.counts, pruned.next
