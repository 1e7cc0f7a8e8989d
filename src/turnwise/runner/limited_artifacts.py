"""An artifact store that saves only while the user's storage has room."""

from turnwise.facts.limits import Limits
from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore
from turnwise.runner.allowances import Allowances

_Infos = tuple[ArtifactInfo, ...]  # named here, because inside the class `list` is the method


async def copied_bytes(store: ArtifactStore, key: SessionKey) -> int:
    """Returns the size of all versions of the session's own artifacts, which a fork copies."""
    names = [info.name for info in await store.list(key) if not info.name.startswith(USER_PREFIX)]
    return sum([info.size for name in names for info in await store.versions(key, name)])


class LimitedArtifacts:
    """Saves as `store` does, but raises StorageUsed when the user's storage has no room.

    Args:
        store: The artifact store.
        allowances: Counts the user's bytes.
        limits: The app's limits.
    """

    def __init__(self, store: ArtifactStore, allowances: Allowances, limits: Limits) -> None:
        self._store, self._allowances, self._limits = store, allowances, limits

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves as `ArtifactStore.save`, if the user's storage has room for the data, and counts it. Raises StorageUsed."""
        await self._allowances.check_storage(key, self._limits, more=len(data))
        info = await self._store.save(key, name, data, mime_type=mime_type)
        self._allowances.add(key, len(data))
        return info

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        return await self._store.load(key, name, version=version)

    async def versions(self, key: SessionKey, name: str) -> _Infos:
        return await self._store.versions(key, name)

    async def list(self, key: SessionKey) -> _Infos:
        return await self._store.list(key)

    async def used_bytes(self, app: str, user: str) -> int:
        return await self._store.used_bytes(app, user)

    async def delete(self, key: SessionKey, name: str) -> None:
        await self._store.delete(key, name)

    async def delete_session(self, key: SessionKey) -> None:
        await self._store.delete_session(key)

    async def delete_user(self, app: str, user: str) -> None:
        await self._store.delete_user(app, user)

    async def close(self) -> None:
        await self._store.close()
