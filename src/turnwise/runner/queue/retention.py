"""Prunes the data that the rules of retention no longer keep: as a whole pass, or step by step in the background."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from turnwise.facts.errors import ConfigError
from turnwise.ports.definitions import Definitions, DefinitionStore
from turnwise.ports.retention import PrunableStore, Retention
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
        self._pass: _Pass | None = None
        self._next_pass = clock()

    async def step_when_due(self) -> None:
        """Runs the next step of a pass, if one is due. After the last step, the next pass is due in `every_seconds`."""
        if self._retention.is_empty or self._clock() < self._next_pass:
            return
        if self._pass is None:
            self._pass = await self._begin()
        await self._step(self._pass, dry_run=False)
        if self._pass.after is None:
            self._pass = None
            self._next_pass = self._clock() + self._retention.every_seconds

    async def whole_pass(self, *, dry_run: bool = False) -> AsyncIterator[Mapping[str, int]]:
        """Runs a whole pass. Yields the counts so far after each step."""
        total: Counter[str] = Counter()
        current = await self._begin()
        while True:
            total.update(await self._step(current, dry_run=dry_run))
            yield dict(total)
            if current.after is None:
                return

    async def _begin(self) -> "_Pass":
        store = self._definitions
        return _Pass(first=await store.revision(self._app) if store is not None else 0)

    async def _step(self, current: "_Pass", *, dry_run: bool) -> Mapping[str, int]:
        """Prunes one step: a batch of users, or after the last user the definitions. Returns the rows pruned by kind."""
        if self._store is None:
            return {}
        pruned = await self._store.prune(self._app, self._retention, now=self._now(), after=current.after, dry_run=dry_run)
        current.after = pruned.next
        current.revisions.update(pruned.revisions)
        if self._artifacts is not None and not dry_run:
            for key in pruned.sessions:
                await self._artifacts.delete_session(key)
        definitions = await self._prune_definitions(current, dry_run=dry_run) if pruned.next is None else 0
        return {**pruned.counts, "definitions": definitions}

    async def _prune_definitions(self, current: "_Pass", *, dry_run: bool) -> int:
        """Prunes versions that no decision names. Decisions that came during the pass may name what served since it began."""
        store, keep = self._definitions, self._retention.definitions.versions
        if store is None or keep is None:
            return 0
        since = range(current.first, await store.revision(self._app) + 1)
        return await store.prune(self._app, keep=keep, revisions={*current.revisions, *since}, dry_run=dry_run)

    @property
    def _definitions(self) -> Definitions | None:
        wanted = self._retention.definitions.versions is not None
        return self._store.definitions if wanted and isinstance(self._store, DefinitionStore) else None


@dataclass(slots=True)
class _Pass:
    """A pass that runs."""

    first: int
    """The revision of the definitions when it began."""
    after: str | None = None
    """The last pruned user; the next step begins after it. None at the beginning and at the end."""
    revisions: set[int] = field(default_factory=set)
    """The revisions that decisions name, as far as they were read."""
