"""Artifacts of sessions, and those that all sessions of a user share."""

from collections.abc import AsyncIterator, Sequence

from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import ArtifactTooLarge, NothingHere
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore
from turnwise.runner import Runner


class Artifacts:
    """What callers can do with artifacts. All of it raises Forbidden, SessionMissing, what the store raises, and NothingHere in
    an app that keeps none.

    user: whom the request names; None = the caller. Names that begin with `user:` are the user's, whichever of the sessions
    is named.
    """

    def __init__(self, runner: Runner, whose: SessionScope) -> None:
        self._runner, self._whose = runner, whose

    async def list(self, caller: Caller, session: str, user: str | None = None) -> Sequence[ArtifactInfo]:
        """The latest version of each, by name."""
        store, key = await self._place(caller, "artifacts:read", session, user)
        return await store.list(key)

    async def versions(self, caller: Caller, session: str, name: str, user: str | None = None) -> Sequence[ArtifactInfo]:
        """All versions of one, oldest first; none when there is no such."""
        store, key = await self._place(caller, "artifacts:read", session, user)
        return await store.versions(key, name)

    async def load(
        self, caller: Caller, session: str, name: str, version: int | None = None, user: str | None = None
    ) -> Artifact:
        """That version, or the latest. NothingHere."""
        store, key = await self._place(caller, "artifacts:read", session, user)
        found = await store.load(key, name, version=version)
        if found is None:
            raise NothingHere("There is no such artifact, or not that version of it.", fix="List the session's artifacts.")
        return found

    async def save(
        self,
        caller: Caller,
        session: str,
        name: str,
        body: AsyncIterator[bytes],
        *,
        mime_type: str,
        size: int | None,
        user: str | None = None,
    ) -> ArtifactInfo:
        """Keeps what comes as a new version. size: how much is said to come; None = it is not said.

        ArtifactTooLarge as soon as that is known; then nothing is kept.
        """
        store, key = await self._place(caller, "artifacts:write", session, user)
        most = self._runner.config.limits.blob_bytes
        _check_size(size or 0, most)
        data = bytearray()
        async for piece in body:
            _check_size(len(data) + len(piece), most)
            data += piece
        return await store.save(key, name, bytes(data), mime_type=mime_type)

    async def delete(self, caller: Caller, session: str, name: str, user: str | None = None) -> None:
        """All versions. Idempotent."""
        store, key = await self._place(caller, "artifacts:write", session, user)
        await store.delete(key, name)

    async def _place(
        self, caller: Caller, permission: Permission, session: str, user: str | None
    ) -> tuple[ArtifactStore, SessionKey]:
        key = self._whose.session(caller, permission, session, user)
        if self._runner.artifacts is None:
            raise NothingHere("This app keeps no artifacts.", fix="Name a place: artifacts: in turnwise.yaml.")
        await self._runner.sessions.get(key)
        return self._runner.artifacts, key


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ArtifactTooLarge(f"The artifact has more than {most:,} bytes.", fix="Send less, or raise limits.blob_bytes.")
