"""Opens the records of an app for commands: legal holds and the audit log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from turnwise.ports.records import RecordStore

ACTOR = "cli"
"""The actor of commands in the audit log."""


class AppRecords(NamedTuple):
    """The records of an app."""

    app: str
    store: "RecordStore"


@asynccontextmanager
async def open_records(config: "Path | None") -> AsyncIterator[AppRecords]:
    """Opens the records of that configuration's app, without its agents.

    Raises:
        ConfigError: if the session store keeps no records.
    """
    from turnwise.access.records import record_store_of
    from turnwise.assemble import load_store

    loaded = load_store(config)
    try:
        yield AppRecords(loaded.app, record_store_of(loaded.store))
    finally:
        await loaded.store.close()
