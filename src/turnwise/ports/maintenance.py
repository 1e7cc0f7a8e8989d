"""The maintenance of a store: what users have stored, unfinished deletions, backups, and the state of its tables."""

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class Usage(NamedTuple):
    """How much a user has stored."""

    sessions: int
    """The number of sessions, with forks."""
    forks: int
    """The number of sessions that read the events of another one."""
    bytes: int
    """The size of their own events, and of the texts in the user's memory."""
    memories: int = 0
    """The number of entries in the user's memory."""


class Maintenance(Protocol):
    """The upkeep of a store. Raises StoreError."""

    async def check_writable(self) -> None:
        """Commits a write that changes nothing. Raises StoreError when the store is unreachable, read-only or full."""
        ...

    async def usage(self, app: str, user: str) -> Usage:
        """Returns what the user has stored. Its cost depends on the number of the user's sessions."""
        ...

    async def finish_deletions(self) -> bool:
        """Continues deletions and rewinds that a process did not finish. Returns whether there were any."""
        ...


@runtime_checkable
class BackupStore(Protocol):
    """The upkeep of a session store that can copy itself while it is in use. The methods block."""

    def back_up(self, target: Path) -> None:
        """Copies the database as it is at one moment, to a new file. Writers continue. Raises StoreError, ConfigError."""
        ...

    def empty_place(self) -> Path:
        """Returns the database's file, which does not exist. Raises ConfigError if it does."""
        ...

    def restore(self, source: Path) -> None:
        """Moves a copy to the store's place, before the store is used. Raises StoreError, ConfigError."""
        ...


@runtime_checkable
class FolderStore(Protocol):
    """An artifact store in a folder."""

    @property
    def folder(self) -> Path:
        """The folder. Names that begin with a dot are temporary files."""
        ...


class SchemaStatus(NamedTuple):
    """The revision of a database's tables, and the one that this version needs."""

    found: str | None
    """None: there are no tables yet, so the first use creates them."""
    wanted: str
    is_moving: bool
    """A migration has begun and rows of old tables are still to be moved."""

    @property
    def is_current(self) -> bool:
        """True if nothing is to be done: the tables are current, or there are none."""
        return self.found is None or (self.found == self.wanted and not self.is_moving)
