"""Artifacts of sessions, and artifacts that all sessions of a user share."""

from collections.abc import AsyncIterator, Sequence

from turnwise.facts.callers import Permission
from turnwise.facts.errors import ArtifactTooLarge, NothingHere
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore
from turnwise.runner import Runner


class Artifacts:
    """Stores, lists, reads and deletes artifacts with the caller's rights.

    A name that begins with `user:` belongs to the user: it is the same artifact in all sessions.

    All methods raise Forbidden, SessionMissing, the store's errors, and NothingHere if the app has no artifact store.
    """

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    async def list(self, session: str) -> Sequence[ArtifactInfo]:
        """Returns the latest version of each artifact, sorted by name."""
        store, key = await self._place("artifacts:read", session)
        return await store.list(key)

    async def versions(self, session: str, name: str) -> Sequence[ArtifactInfo]:
        """Returns all versions of an artifact, oldest first; empty if there is no such artifact."""
        store, key = await self._place("artifacts:read", session)
        return await store.versions(key, name)

    async def load(self, session: str, name: str, version: int | None = None) -> Artifact:
        """Returns one version of an artifact with its bytes; the latest if `version` is None.

        Raises:
            NothingHere: The artifact or the version does not exist.
        """
        store, key = await self._place("artifacts:read", session)
        found = await store.load(key, name, version=version)
        if found is None:
            raise NothingHere("The artifact or the version does not exist.", fix="List the session's artifacts.")
        return found

    async def save(
        self,
        session: str,
        name: str,
        body: AsyncIterator[bytes],
        *,
        mime_type: str,
        size: int | None,
    ) -> ArtifactInfo:
        """Stores the body as a new version.

        Args:
            session: The session's id.
            name: The artifact's name.
            body: The bytes in chunks.
            mime_type: The content type to store.
            size: The announced size in bytes; None if it is unknown.

        Raises:
            ArtifactTooLarge: The announced or the received size exceeds `limits.blob_bytes`. Nothing is stored.
        """
        store, key = await self._place("artifacts:write", session)
        most = self._runner.config.limits.blob_bytes
        _check_size(size or 0, most)
        data = bytearray()
        async for piece in body:
            _check_size(len(data) + len(piece), most)
            data += piece
        return await store.save(key, name, bytes(data), mime_type=mime_type)

    async def delete(self, session: str, name: str) -> None:
        """Deletes all versions of an artifact. Idempotent."""
        store, key = await self._place("artifacts:write", session)
        await store.delete(key, name)

    async def _place(self, permission: Permission, session: str) -> tuple[ArtifactStore, SessionKey]:
        key = self._scope.session(permission, session)
        if self._runner.limited_artifacts is None:
            raise NothingHere("This app has no artifact store.", fix="Configure one: artifacts: in turnwise.yaml.")
        await self._runner.sessions.get(key)
        return self._runner.limited_artifacts, key


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ArtifactTooLarge(f"The artifact has more than {most:,} bytes.", fix="Send less, or raise limits.blob_bytes.")
