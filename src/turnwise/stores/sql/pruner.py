"""Runs the steps of retention on a store."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from turnwise.facts.sessions import SessionKey
from turnwise.ports.retention import Pruned, Retention
from turnwise.stores.sql import pruning
from turnwise.stores.sql.pruning import UserPlan
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.tombstones import Removal
from turnwise.stores.sql.worker_pool import Executor


class Pruner:
    """Prunes the data of an app. `remove` deletes the rows of a hidden session."""

    def __init__(self, executor: Executor, remove: Callable[[Removal], Awaitable[None]]) -> None:
        self._executor, self._remove = executor, remove

    async def step(self, app: str, retention: Retention, now: datetime, after: str | None, *, dry_run: bool) -> Pruned:
        """Prunes the data of the next users."""
        counts: Counter[str] = Counter()
        gone: list[SessionKey] = []
        revisions: set[int] = set()
        users = await self._executor.read(lambda connection: pruning.users_after(connection, app, after))
        for user in users:
            read = partial(pruning.plan_user, app=app, user=user, retention=retention, now=now)
            plan = await self._executor.read(read)
            if plan is not None:
                gone += await self._prune_sessions(plan, now, dry_run=dry_run)
                for kind in pruning.KINDS:
                    counts[kind] += await self._prune_kind(plan, kind, now, dry_run=dry_run)
                counts["memories"] += await self._prune_memories(plan, now, dry_run=dry_run)
            if retention.definitions.versions is not None:
                revisions |= await self._executor.read(partial(pruning.named_revisions, app=app, user=user))
        counts["sessions"] = len(gone)
        return Pruned(dict(counts), gone, revisions, users[-1] if len(users) == pruning.USERS else None)

    async def _prune_sessions(self, plan: UserPlan, now: datetime, *, dry_run: bool) -> list[SessionKey]:
        """Hides and deletes the user's expired sessions, and returns their keys."""
        gone: list[SessionKey] = []
        run = self._executor.read if dry_run else self._executor.write
        for start in range(0, len(plan.expired), pruning.SESSIONS):
            rows = plan.expired[start : start + pruning.SESSIONS]
            job = partial(pruning.hide_expired, plan=plan, rows=rows, now=time_text(now), dry_run=dry_run)
            for key, removal in await run(job):
                gone.append(key)
                if not dry_run:
                    await self._remove(removal)
        return gone

    async def _prune_kind(self, plan: UserPlan, kind: str, now: datetime, *, dry_run: bool) -> int:
        """Deletes old rows of one kind in the user's idle sessions, and returns their number."""
        pruned = 0
        for start in range(0, len(plan.idle), pruning.SESSIONS):
            read_idle = partial(pruning.still_idle, plan=plan, rows=plan.idle[start : start + pruning.SESSIONS])
            numbers = [row.number for row in await self._executor.read(read_idle)]
            read = partial(pruning.old_rows, plan=plan, name=kind, numbers=numbers, now=now)
            while rows := await self._executor.read(read):
                if dry_run:
                    pruned += len(rows)
                    break
                written = await self._executor.write(partial(pruning.prune_rows, plan=plan, name=kind, rows=rows))
                pruned += written
                if not written or len(rows) < pruning.STEP_ROWS:
                    break
        return pruned

    async def _prune_memories(self, plan: UserPlan, now: datetime, *, dry_run: bool) -> int:
        """Deletes the user's entries that retention no longer keeps, and returns their number."""
        ids = await self._executor.read(lambda connection: pruning.old_memories(connection, plan, now))
        if dry_run:
            return len(ids)
        pruned = 0
        for start in range(0, len(ids), pruning.MEMORIES):
            some = ids[start : start + pruning.MEMORIES]
            pruned += await self._executor.write(partial(pruning.prune_memories, plan=plan, ids=some))
        return pruned
