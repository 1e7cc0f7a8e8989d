"""The upkeep of a store: it counts what users have, and finishes deletions and rewinds."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from turnwise.ports.maintenance import Usage
from turnwise.stores.sql import backups, catalog, hidden_states, removals, schema
from turnwise.stores.sql.hidden_states import Position
from turnwise.stores.sql.rows import Removal
from turnwise.stores.sql.worker_pool import Executor

T = TypeVar("T")


class SqlMaintenance:
    """The store's upkeep."""

    def __init__(self, executor: Executor, url: URL) -> None:
        self._executor, self._url = executor, url

    def back_up(self, target: Path) -> None:
        backups.back_up(self._url, target)

    def empty_place(self) -> Path:
        return backups.empty_place(self._url)

    def restore(self, source: Path) -> None:
        backups.restore(self._url, source)

    async def check_writable(self) -> None:
        await self._executor.write(schema.touch)

    async def usage(self, app: str, user: str) -> Usage:
        return await self._executor.read(lambda connection: catalog.usage(connection, app, user))

    async def finish_deletions(self) -> bool:
        """Finishes deletions and rewinds that were begun. Returns whether there were any."""
        pending = await self._executor.read(removals.pending)
        for removal in pending:
            await self.remove(removal)
        rewound = await self._executor.read(hidden_states.pending)
        for session in rewound:
            await self._clear(session)
        return bool(pending or rewound)

    async def remove(self, removal: Removal | None) -> None:
        """Deletes the rows of a removal, in short transactions."""
        if removal is not None:
            await self._repeat(lambda _, connection: removals.remove_some(connection, removal) or None, True)

    async def _clear(self, rewound: Removal) -> None:
        """Clears the states that rewinds of the session hide, in short transactions."""
        await self._repeat(lambda state, connection: hidden_states.clear_some(connection, rewound, state), Position())

    async def _repeat(self, step: Callable[[T, Connection], T | None], state: T) -> None:
        """Runs the step on the result of the last one until that is None. After each one it pauses for as long as it took.

        SQLite has one writer: without pauses, other processes would hardly get their turn.
        """
        clock = asyncio.get_running_loop().time
        reached: T | None = state
        while reached is not None:
            began = clock()
            reached = await self._executor.write(partial(step, reached))
            if reached is not None:
                await asyncio.sleep(clock() - began)
