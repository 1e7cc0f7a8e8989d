"""Artifacts in memory: for tests and trials. They are lost with the process."""

from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.stores.artifacts.names import MAX_BYTES, check_artifact, check_name

_Owner = tuple[str, ...]
_Versions = list[Artifact]  # named here, because inside the class `list` is the method


class InMemoryArtifactStore:
    """An `ArtifactStore` in memory.

    Args:
        max_bytes: Largest size of one artifact.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._artifacts: dict[_Owner, dict[str, _Versions]] = {}

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves the data as the next version of the artifact. Raises the errors of `check_artifact`."""
        check_artifact(name, len(data), mime_type, self._max_bytes)
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
        of_user = [names for owner, names in self._artifacts.items() if owner[:2] == (app, user)]
        return sum(artifact.info.size for names in of_user for versions in names.values() for artifact in versions)

    async def delete(self, key: SessionKey, name: str) -> None:
        self._artifacts.get(_owner(key, check_name(name)), {}).pop(name, None)

    async def delete_session(self, key: SessionKey) -> None:
        self._artifacts.pop(tuple(key), None)

    async def delete_user(self, app: str, user: str) -> None:
        for owner in [owner for owner in self._artifacts if owner[:2] == (app, user)]:
            del self._artifacts[owner]

    async def close(self) -> None:
        """Does nothing."""

    def _versions(self, key: SessionKey, name: str) -> _Versions:
        return self._artifacts.get(_owner(key, check_name(name)), {}).get(name, [])


def _owner(key: SessionKey, name: str) -> _Owner:
    """Returns the user for a shared name, else the session."""
    return tuple(key)[:2] if name.startswith(USER_PREFIX) else tuple(key)
