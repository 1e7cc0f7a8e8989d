"""What is kept of those who want to be notified of invocations: whom, of what, how far, and which process does it."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from turnwise.facts.pushes import PushConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease


class PushPlace(NamedTuple):
    """Which one it is: the session, the message that began the invocation, and the id of the configuration."""

    key: SessionKey
    message_id: str
    id: str


class Push(NamedTuple):
    """Somebody to be notified. told: the number of the last event that he heard of."""

    place: PushPlace
    config: PushConfig
    told: int


class Pushes(Protocol):
    """Those who want to be notified, by invocation. They go with their session. Raises StoreError."""

    async def put(self, key: SessionKey, message_id: str, config: PushConfig, *, after: int | None, most: int) -> bool:
        """Keeps it, in place of one with the same id; the same again changes nothing. after: events up to that number are known
        already; None = all that there are. False, and nothing is kept, when there are `most` others for that message.
        SessionMissing.
        """
        ...

    async def list(self, key: SessionKey, message_id: str) -> Sequence[PushConfig]:
        """All for that message, by their ids."""
        ...

    async def remove(self, key: SessionKey, message_id: str, id: str) -> None:
        """Forgets it; whoever notifies stops at his next step. Idempotent."""
        ...

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[Push]:
        """Takes some that are due: nobody has them, and in their sessions something was stored since they were last looked at.
        Costs one read when there are none.
        """
        ...

    async def renew(self, lease: Lease) -> Collection[PushPlace]:
        """Prolongs all that the holder has; gives them. What is not among them was taken away."""
        ...

    async def tell(self, place: PushPlace, holder: str, told: int) -> bool:
        """Notes how far it was told; False when the holder does not have it any more."""
        ...

    async def leave(self, place: PushPlace, holder: str, *, seen: int | None) -> None:
        """Gives it back. It is due again when its session holds an event above the number `seen`; None = never."""
        ...

    async def give_up(self, holder: str) -> None:
        """Gives back all that the holder has; they are due."""
        ...


@runtime_checkable
class KeepsPushes(Protocol):
    """A session store that keeps these, too, has them as `pushes`."""

    @property
    def pushes(self) -> Pushes: ...
