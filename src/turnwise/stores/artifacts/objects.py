"""Artifacts in an object store (S3, Google Cloud, Azure) through obstore, one object per version.

A version is written only if its key does not exist, which the store decides atomically. The loser of a race takes the next
number.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from turnwise.facts.errors import ConfigError, MissingExtra, StoreCorrupt, StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.stores.artifacts import names

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CONCURRENCY = 16
_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_SCHEMES = frozenset({"s3", "gcs", "azure", "memory"})  # the others of obstore keep no attributes, or list nothing
_Object = tuple[str, int]  # a place as a prefix of keys, and a version
_Objects = list[_Object]  # named here, because inside the class `list` is the method


class ObjectArtifactStore:
    """An `ArtifactStore` in an object store. The MIME type is the object's Content-Type.

    Args:
        place: A URL such as `s3://bucket/folder`, or a store made with obstore.
        options: obstore's options for that kind of store (`endpoint`, `region`, `access_key_id`, …). Missing ones come from the
            environment. An `endpoint` with `http://` is used without encryption.
        max_bytes: Largest size of one artifact.

    Raises:
        MissingExtra: obstore is not installed.
        ConfigError: The URL or an option is not valid.
    """

    def __init__(
        self,
        place: "str | ObjectStore",
        *,
        options: Mapping[str, str | bool] | None = None,
        max_bytes: int = names.MAX_BYTES,
    ) -> None:
        self._library = _library()
        self._store = _open(self._library, place, options or {}) if isinstance(place, str) else place
        self._max_bytes = max_bytes

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves the data as a new object, the next version; tries the next number when another process took it."""
        names.check_artifact(name, len(data), mime_type, self._max_bytes)
        place = _prefix(names.artifact_path(key, name))
        attributes = {"Content-Type": mime_type, "name": quote(name)}
        async with self._store_errors():
            while True:
                version = await self._newest(place) + 1
                path = _path((place, version))
                try:
                    await self._library.put_async(self._store, path, data, mode="create", attributes=attributes)
                except self._library.exceptions.AlreadyExistsError:
                    continue
                return ArtifactInfo(name, version, mime_type, len(data))

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        place = _prefix(names.artifact_path(key, name))
        async with self._store_errors():
            number = await self._newest(place) if version is None else version
            found = await self._get((place, number))
            return Artifact(_info(found, number), bytes(await found.bytes_async())) if found else None

    async def versions(self, key: SessionKey, name: str) -> tuple[ArtifactInfo, ...]:
        place = _prefix(names.artifact_path(key, name))
        async with self._store_errors():
            return await self._infos(sorted(await self._objects(place)))

    async def list(self, key: SessionKey) -> tuple[ArtifactInfo, ...]:
        async with self._store_errors():
            own = await self._objects(_prefix(names.session_path(key)))
            shared = await self._objects(_prefix(names.shared_path(key)))
            newest = dict(sorted(own + shared))
            return tuple(sorted(await self._infos([*newest.items()])))

    async def used_bytes(self, app: str, user: str) -> int:
        async with self._store_errors():
            prefix = _prefix(names.user_path(app, user))
            chunks = self._library.list(self._store, prefix, chunk_size=1_000)
            return sum([entry["size"] async for chunk in chunks for entry in chunk])

    async def delete(self, key: SessionKey, name: str) -> None:
        await self._remove(names.artifact_path(key, name))

    async def delete_session(self, key: SessionKey) -> None:
        await self._remove(names.session_path(key))

    async def delete_user(self, app: str, user: str) -> None:
        await self._remove(names.user_path(app, user))

    async def close(self) -> None:
        """Does nothing."""

    async def _objects(self, prefix: str) -> _Objects:
        """Returns all versions below a prefix, in no order. Foreign objects are left out."""
        paths = [entry["path"] async for chunk in self._library.list(self._store, prefix, chunk_size=1_000) for entry in chunk]
        parts = (path.rpartition("/") for path in paths)
        return [(place, int(version)) for place, _, version in parts if version.isdecimal()]

    async def _newest(self, place: str) -> int:
        return max((version for _, version in await self._objects(place)), default=0)

    async def _get(self, item: _Object, *, head: bool = False) -> Any:
        """Returns obstore's result, or None when there is no such version."""
        if item[1] < 1:
            return None
        try:
            return await self._library.get_async(self._store, _path(item), options={"head": head})
        except FileNotFoundError:
            return None

    async def _infos(self, items: _Objects) -> tuple[ArtifactInfo, ...]:
        """Returns the infos in the order of `items`. The MIME type is not part of a listing, so each costs a request."""
        semaphore = asyncio.Semaphore(_CONCURRENCY)

        async def info(item: _Object) -> ArtifactInfo | None:
            async with semaphore:
                found = await self._get(item, head=True)
                return _info(found, item[1]) if found else None

        infos = await asyncio.gather(*(info(item) for item in items))
        return tuple(info for info in infos if info is not None)

    async def _remove(self, place: names.PathParts) -> None:
        """Deletes all objects below the path."""
        async with self._store_errors():
            paths = [_path(item) for item in await self._objects(_prefix(place))]
            try:
                if paths:
                    await self._library.delete_async(self._store, paths)
            except FileNotFoundError:
                return  # deleted by another process at the same time

    @asynccontextmanager
    async def _store_errors(self) -> AsyncIterator[None]:
        """Raises the library's errors as StoreUnavailable."""
        try:
            yield
        except (self._library.exceptions.BaseError, OSError) as error:
            raise StoreUnavailable(
                f"The object store of the artifacts cannot be used: {_first_line(error)}.",
                fix="Check its address, the credentials, and that it can be reached.",
            ) from error


def _library() -> ModuleType:
    """Returns the library obstore. Raises MissingExtra."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise MissingExtra("Keeping artifacts in an object store", "s3") from error
    return obstore


def _open(library: ModuleType, url: str, options: Mapping[str, str | bool]) -> Any:
    """Opens the object store of the URL. Raises ConfigError for an unsupported one."""
    client = {"allow_http": True} if str(options.get("endpoint", "")).startswith("http://") else {}
    try:
        if library.parse_scheme(url) not in _SCHEMES:
            raise ValueError("artifacts are kept on S3, Google Cloud or Azure; a folder has a store of its own")
        return library.store.from_url(url, config=dict(options), client_options=client, retry_config=_RETRIES)
    except (library.exceptions.BaseError, ValueError, TypeError) as error:
        raise ConfigError(
            f"The artifact store {url!r} cannot be made: {_first_line(error)}.",
            fix="Use a URL such as 's3://bucket/folder' and options that obstore knows for it.",
        ) from error


def _first_line(error: Exception) -> str:
    """Returns the error without the internals that obstore appends."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")


def _prefix(place: names.PathParts) -> str:
    return "/".join(place)


def _path(item: _Object) -> str:
    place, version = item
    return f"{place}/{version:08d}"


def _info(found: Any, version: int) -> ArtifactInfo:
    """Returns the facts about an artifact from an object's attributes. Raises StoreCorrupt if they are missing."""
    try:
        name, mime_type = unquote(found.attributes["name"]), found.attributes["Content-Type"]
    except KeyError as error:
        raise StoreCorrupt(
            f"The object {found.meta['path']!r} among the artifacts has no {error}.",
            fix="Remove it if it was not saved through Turnwise.",
        ) from error
    return ArtifactInfo(name, version, mime_type, found.meta["size"])
