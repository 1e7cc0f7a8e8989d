"""Artifacts in memory, for tests and trials, and on disk, one folder per version.

On disk, a version is written to a temporary folder, then renamed into the tree. Renaming onto a folder with content fails: only
one of two processes gets a version number, on every file system and without locks.
"""

import asyncio
import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from turnwise.facts.errors import StoreCorrupt, StoreFull, StoreUnavailable
from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.stores.artifacts import names

_Owner = tuple[str, ...]
_Versions = list[Artifact]  # named here, because inside the class `list` is the method


class InMemoryArtifactStore:
    """An `ArtifactStore` in memory.

    Args:
        max_bytes: Largest size of one artifact.
    """

    def __init__(self, *, max_bytes: int = names.MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._artifacts: dict[_Owner, dict[str, _Versions]] = {}

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves the data as the next version of the artifact. Raises the errors of `check_artifact`."""
        names.check_artifact(name, len(data), mime_type, self._max_bytes)
        versions = self._artifacts.setdefault(_owner(key, name), {}).setdefault(name, [])
        info = ArtifactInfo(name, len(versions) + 1, mime_type, len(data))
        versions.append(Artifact(info, bytes(data)))
        return info

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        versions = self._versions(key, name)
        number = len(versions) if version is None else version
        return versions[number - 1] if 1 <= number <= len(versions) else None

    async def versions(self, key: SessionKey, name: str) -> tuple[ArtifactInfo, ...]:
        return tuple(artifact.info for artifact in self._versions(key, name))

    async def list(self, key: SessionKey) -> tuple[ArtifactInfo, ...]:
        seen = {**self._artifacts.get(tuple(key), {}), **self._artifacts.get(tuple(key)[:2], {})}
        return tuple(seen[name][-1].info for name in sorted(seen))

    async def used_bytes(self, app: str, user: str) -> int:
        of_user = [artifacts for owner, artifacts in self._artifacts.items() if owner[:2] == (app, user)]
        return sum(artifact.info.size for artifacts in of_user for versions in artifacts.values() for artifact in versions)

    async def delete(self, key: SessionKey, name: str) -> None:
        self._artifacts.get(_owner(key, names.check_name(name)), {}).pop(name, None)

    async def delete_session(self, key: SessionKey) -> None:
        self._artifacts.pop(tuple(key), None)

    async def delete_user(self, app: str, user: str) -> None:
        for owner in [owner for owner in self._artifacts if owner[:2] == (app, user)]:
            del self._artifacts[owner]

    async def close(self) -> None:
        """Does nothing."""

    def _versions(self, key: SessionKey, name: str) -> _Versions:
        return self._artifacts.get(_owner(key, names.check_name(name)), {}).get(name, [])


def _owner(key: SessionKey, name: str) -> _Owner:
    """Returns the user for a shared name, else the session."""
    return tuple(key)[:2] if name.startswith(USER_PREFIX) else tuple(key)


T = TypeVar("T")
_DATA, _INFO = "data", "info.json"
_TEMPORARY = ".tmp"  # no encoded app begins with a dot
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


class OnDiskArtifactStore:
    """An `ArtifactStore` in a folder. Any number of processes may share it.

    The bytes of a version are in `<path>/<version>/data`. A version is durable when `save` returns. Files of a killed process
    under `.tmp` may be removed.

    Args:
        folder: The folder; the first save creates it.
        max_bytes: Largest size of one artifact.
    """

    def __init__(self, folder: str | os.PathLike[str], *, max_bytes: int = names.MAX_BYTES) -> None:
        self._folder = Path(folder)
        self._max_bytes = max_bytes

    @property
    def folder(self) -> Path:
        return self._folder

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves the data as the next version, in a thread."""
        names.check_artifact(name, len(data), mime_type, self._max_bytes)
        place = self._path(names.artifact_path(key, name))

        def work() -> ArtifactInfo:
            version = _save(self._temporary(), place, data, {"name": name, "mime_type": mime_type})
            return ArtifactInfo(name, version, mime_type, len(data))

        return await self._in_thread(work)

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        place = self._path(names.artifact_path(key, name))
        return await self._in_thread(lambda: _load(place, _newest(place) if version is None else version))

    async def versions(self, key: SessionKey, name: str) -> tuple[ArtifactInfo, ...]:
        place = self._path(names.artifact_path(key, name))
        return await self._in_thread(lambda: tuple(_infos(place, *_numbers(place))))

    async def list(self, key: SessionKey) -> tuple[ArtifactInfo, ...]:
        """Lists the newest versions of the session's and the user's artifacts, by name."""
        places = self._path(names.session_path(key)), self._path(names.shared_path(key))

        def work() -> tuple[ArtifactInfo, ...]:
            artifacts = (place / entry for place in places for entry in _entries(place))
            return tuple(sorted(info for artifact in artifacts for info in _infos(artifact, _newest(artifact))))

        return await self._in_thread(work)

    async def used_bytes(self, app: str, user: str) -> int:
        place = self._path(names.user_path(app, user))
        return await self._in_thread(lambda: _total_size(place))

    async def delete(self, key: SessionKey, name: str) -> None:
        await self._remove(names.artifact_path(key, name))

    async def delete_session(self, key: SessionKey) -> None:
        await self._remove(names.session_path(key))

    async def delete_user(self, app: str, user: str) -> None:
        await self._remove(names.user_path(app, user))

    async def close(self) -> None:
        """Does nothing."""

    def _path(self, place: names.PathParts) -> Path:
        return self._folder.joinpath(*place)

    def _temporary(self) -> Path:
        return self._folder / _TEMPORARY / uuid.uuid4().hex

    async def _remove(self, place: names.PathParts) -> None:
        await self._in_thread(lambda: _remove(self._temporary(), self._path(place)))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with _store_errors(self._folder):
                return work()

        return await asyncio.to_thread(guarded)


@contextmanager
def _store_errors(folder: Path) -> Iterator[None]:
    """Raises errors of the file system as StoreFull or StoreUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreFull(
                f"There is no space left for artifacts in {folder}.", fix="Free some; nothing of this artifact was stored."
            ) from error
        raise StoreUnavailable(
            f"The artifact folder {folder} cannot be used: {error.strerror or error}.",
            fix="Check that it is a folder which this process may read and write.",
        ) from error


def _save(ready: Path, place: Path, data: bytes, info: dict[str, str]) -> int:
    """Writes the version to `ready`, moves it into `place`, and returns its number."""
    try:
        ready.mkdir(parents=True)
        _write(ready / _DATA, data)
        _write(ready / _INFO, json.dumps(info).encode())
        _sync_folder(ready)
        return _publish(ready, place)
    except BaseException:
        shutil.rmtree(ready, ignore_errors=True)
        raise


def _publish(ready: Path, place: Path) -> int:
    """Moves a complete version into place under the next free number, and returns the number."""
    while True:
        try:
            _make_folders(place)
            version = _newest(place) + 1
            ready.rename(place / str(version))
        except FileNotFoundError:  # the artifact was deleted meanwhile: start again
            if not ready.exists():
                raise
        except OSError as error:  # another process took this number: try the next
            if error.errno not in _TAKEN or not place.is_dir():
                raise
        else:
            _sync_folder(place)
            return version


def _load(place: Path, version: int) -> Artifact | None:
    """Reads one version; None if it does not exist or was deleted meanwhile."""
    for info in _infos(place, version):
        try:
            return Artifact(info, (place / str(version) / _DATA).read_bytes())
        except FileNotFoundError:
            return None
    return None


def _infos(place: Path, *versions: int) -> Iterator[ArtifactInfo]:
    """Yields the infos of these versions, except missing ones."""
    for version in versions:
        folder = place / str(version)
        try:
            info = json.loads((folder / _INFO).read_bytes())
            yield ArtifactInfo(info["name"], version, info["mime_type"], (folder / _DATA).stat().st_size)
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise StoreCorrupt(
                f"The file {folder / _INFO} is damaged.", fix="Restore it from a backup, or remove its folder."
            ) from error


def _total_size(folder: Path) -> int:
    """Returns the size of all versions below the folder."""
    size = 0
    for place, _, files in os.walk(folder):
        if _DATA in files:
            with suppress(FileNotFoundError):  # deleted meanwhile
                size += os.stat(os.path.join(place, _DATA)).st_size
    return size


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _numbers(place: Path) -> list[int]:
    return sorted(int(entry) for entry in _entries(place) if entry.isdecimal())


def _newest(place: Path) -> int:
    return max(_numbers(place), default=0)


def _remove(doomed: Path, place: Path) -> None:
    """Removes a folder. One rename makes all of it invisible before the files are deleted."""
    if not place.exists():
        return
    doomed.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.rename(doomed)
    except FileNotFoundError:
        return
    _sync_folder(place.parent)
    shutil.rmtree(doomed, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_folders(folder: Path) -> None:
    """Creates the folder and its parents durably: a folder is durable once its parent is synced."""
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Flushes the folder's entries to the disk, so that a rename survives a crash."""
    if os.name == "posix":  # other systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
