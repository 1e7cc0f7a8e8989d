"""Backs up the stores of an app into one archive while they are used, and restores them into an empty place."""

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import Any
from zipfile import ZipFile

from turnwise.facts.errors import ConfigError
from turnwise.ports.maintenance import BackupStore, FolderStore
from turnwise.ports.stores import ArtifactStore, SessionStore

FORMAT = "turnwise-backup"
VERSION = 1
_ABOUT, _DATABASE, _ARTIFACTS = "backup.json", "sessions.db", "artifacts"
_FIX = "Name a file that `turnwise backup` wrote."


class StoreBackup:
    """The backup of a session store in a SQLite file, with artifacts in a folder. The methods block.

    Args:
        store: The session store.
        artifacts: The artifact store. One that is not a folder is left out.

    Raises:
        ConfigError: The store cannot be copied to a file.
    """

    def __init__(self, store: SessionStore, artifacts: ArtifactStore | None) -> None:
        if not isinstance(store.maintenance, BackupStore):
            raise ConfigError(f"A {type(store).__name__} cannot be copied to a file.", fix="Use the backup of its database.")
        self._database = store.maintenance
        self._folder = artifacts.folder if isinstance(artifacts, FolderStore) else None
        self.leaves_out_artifacts = artifacts is not None and self._folder is None
        """Whether there are artifacts that the backup does not include."""

    def save(self, file: Path, now: datetime) -> None:
        """Writes a new archive. Messages may run meanwhile.

        The database is copied first: a file that its events name is saved before them, so the later copy of the folder has it.

        Raises:
            ConfigError: The archive exists, or the store cannot be copied.
            StoreError: The database cannot be read.
        """
        if file.exists():
            raise ConfigError(f"{file} exists; a backup overwrites nothing.", fix="Name another file.")
        part, copy = file.with_name(f"{file.name}.part"), file.with_name(f"{file.name}.db.part")
        copy.unlink(missing_ok=True)
        try:
            self._database.back_up(copy)
            with ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                about = {
                    "format": FORMAT,
                    "version": VERSION,
                    "created_at": now.isoformat(),
                    "artifacts": self._folder is not None,
                }
                archive.writestr(_ABOUT, json.dumps(about))
                archive.write(copy, _DATABASE)
                for path in _files(self._folder):
                    # A version that is deleted meanwhile is left out.
                    with suppress(FileNotFoundError):
                        archive.write(path, f"{_ARTIFACTS}/{path.relative_to(self._folder or path).as_posix()}")
            with part.open("rb") as written:
                os.fsync(written.fileno())
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)
            copy.unlink(missing_ok=True)

    def restore(self, file: Path) -> None:
        """Restores an archive. Nothing may be in the places of the stores; the app must not run.

        The database comes last: without it, the app does not begin with half of a backup.

        Args:
            file: The archive.

        Raises:
            ConfigError: The archive cannot be read, or a place is not empty.
            StoreError: The copy is damaged.
        """
        place = self._database.empty_place()
        if self._folder is not None and self._folder.exists() and any(self._folder.iterdir()):
            raise ConfigError(f"{self._folder} is not empty; a restore overwrites nothing.", fix="Move it away.")
        place.parent.mkdir(parents=True, exist_ok=True)
        copy = place.with_name(f"{place.name}.restored")
        try:
            with ZipFile(file) as archive:
                names = _checked(archive, file)
                with archive.open(_DATABASE) as source, copy.open("wb") as target:
                    shutil.copyfileobj(source, target)
                    target.flush()
                    os.fsync(target.fileno())
                if self._folder is not None:
                    _restore_folder(archive, names, self._folder)
            self._database.restore(copy)
        except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
            raise ConfigError(f"{file} is not a backup: {error}.", fix=_FIX) from None
        finally:
            copy.unlink(missing_ok=True)


def _files(folder: Path | None) -> Iterator[Path]:
    """Yields the files of complete artifacts."""
    if folder is None or not folder.exists():
        return
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") or place != str(folder))
        yield from (Path(place, name) for name in sorted(names))


def _checked(archive: ZipFile, file: Path) -> list[str]:
    """Returns the names of artifacts' files. Raises ConfigError for another archive, and for names outside the folder."""
    about: Any = json.loads(archive.read(_ABOUT))
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("version") != VERSION:
        raise ConfigError(f"{file} is not a backup that this version can read.", fix=_FIX)
    names = [name for name in archive.namelist() if name not in (_ABOUT, _DATABASE)]
    for name in names:
        parts = PurePosixPath(name).parts
        if parts[0] != _ARTIFACTS or len(parts) < 2 or ".." in parts or "\\" in name:
            raise ConfigError(f"{file} holds the unexpected file {name[:100]!r}.", fix=_FIX)
    return names


def _restore_folder(archive: ZipFile, names: list[str], folder: Path) -> None:
    """Extracts the artifacts' files into a new folder beside `folder`, and moves it there when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(prefix=".restore-", dir=folder.parent))
    for name in names:
        target = part.joinpath(*PurePosixPath(name).parts[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(name) as source, target.open("wb") as written:
            shutil.copyfileobj(source, written)
    if folder.exists():
        folder.rmdir()
    os.replace(part, folder)
