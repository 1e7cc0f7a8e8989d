"""Files of a gateway's sessions."""

from collections.abc import Sequence

from turnwise.client.asked import Asked, at_session, escaped, get
from turnwise.client.gateway import Gateway
from turnwise.client.problems import strange
from turnwise.ports.stores import Artifact, ArtifactInfo
from turnwise.wire.kept import ArtifactList, ArtifactShown


class Artifacts:
    """Kept, listed, read and deleted; names that begin with `user:` are the user's in all sessions. All of it raises what the
    gateway tells, and Unreached; SessionMissing, too.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, session: str) -> Sequence[ArtifactShown]:
        """The latest version of each, by name."""
        return (await self._gateway.ask(ArtifactList, get(at_session(session, "artifacts")))).artifacts

    async def versions(self, session: str, name: str) -> Sequence[ArtifactShown]:
        """All versions of one, oldest first; none when there is no such."""
        return (await self._gateway.ask(ArtifactList, get(at_session(session, "artifacts"), name=name))).artifacts

    async def put(self, session: str, name: str, data: bytes, *, mime_type: str = "application/octet-stream") -> ArtifactShown:
        """Keeps a new version. Not tried again when it may have been kept. ArtifactName, ArtifactTooLarge."""
        asked = Asked("PUT", _at(session, name), content=data, headers={"Content-Type": mime_type})
        return await self._gateway.ask(ArtifactShown, asked, repeatable=False)

    async def get(self, session: str, name: str, *, version: int | None = None) -> Artifact:
        """That version, or the latest, with its bytes. NothingHere."""
        response = await self._gateway.fetch(get(_at(session, name), version=version))
        which = response.headers.get("x-artifact-version", "")
        if not which.isdecimal():
            raise strange(response)
        data = response.content
        return Artifact(ArtifactInfo(name, int(which), response.headers.get("content-type", ""), len(data)), data)

    async def delete(self, session: str, name: str) -> None:
        """All versions. Idempotent."""
        await self._gateway.fetch(Asked("DELETE", _at(session, name)))


def _at(session: str, name: str) -> str:
    return at_session(session, "artifacts", escaped(name))
