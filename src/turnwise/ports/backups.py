"""Backups of stores that are files."""

from pathlib import Path
from typing import Protocol, runtime_checkable


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
