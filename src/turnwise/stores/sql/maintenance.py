"""The upkeep of a store: it counts what users have, and finishes deletions."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from turnwise.ports.stores import Usage
from turnwise.stores.sql import backups, catalog, removals, schema
from turnwise.stores.sql.threads import Executor


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
        pending = await self._executor.read(removals.pending)
        for removal in pending:
            await self.remove(removal)
        return bool(pending)

    async def remove(self, removal: removals.Removal | None) -> None:
        """Deletes the rows of a removal, in short transactions."""
        if removal is not None:
            await self._repeat(partial(removals.remove_some, removal=removal))

    async def _repeat(self, step: Callable[[Connection], bool]) -> None:
        """Runs the step until it returns False. After each one it pauses for as long as the step took.

        SQLite has one writer: without pauses, other processes would hardly get their turn.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        while await self._executor.write(step):
            await asyncio.sleep(clock() - began)
            began = clock()
