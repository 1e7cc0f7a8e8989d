"""Push subscriptions: the destination of an invocation's notifications, and the store that says how far each one has come."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import ConfigDict, Field

from turnwise.facts.callers import Caller
from turnwise.facts.fact import Fact
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease


class PushConfig(Fact):
    """The destination of push notifications. The URL, the token and the credentials are secrets."""

    model_config = ConfigDict(hide_input_in_errors=True)

    id: str
    """Unique per message."""
    url: str = Field(repr=False)
    token: str = Field(default="", repr=False)
    """Sent with each notification, so that the receiver can verify it."""
    scheme: str = ""
    """The scheme of the `Authorization` header; empty means no header."""
    credentials: str = Field(default="", repr=False)
    """The credentials of the `Authorization` header."""
    caller: Caller
    """The caller that created the configuration. Notifications contain only what this caller may read."""
    base: str = ""
    """The gateway's URL as this caller knows it, without a trailing slash."""


class PushPlace(NamedTuple):
    """The key of a push subscription."""

    key: SessionKey
    message_id: str
    """The id of the message that began the invocation."""
    id: str
    """The id of the configuration."""


class Push(NamedTuple):
    """A push subscription."""

    place: PushPlace
    config: PushConfig
    told: int
    """The sequence number of the last event that was delivered."""


class Pushes(Protocol):
    """Push subscriptions by invocation. They are deleted with their session. Raises StoreError."""

    async def put(self, key: SessionKey, message_id: str, config: PushConfig, *, after: int | None, most: int) -> bool:
        """Stores a subscription, replacing one with the same id. Storing the same one again changes nothing.

        Args:
            key: The session.
            message_id: The message that began the invocation.
            config: The destination.
            after: Skip events up to this sequence number; None skips all present events.
            most: The maximum number of subscriptions per message.

        Returns:
            False if the message already has `most` others; nothing is stored then.

        Raises:
            SessionMissing: The session does not exist.
        """
        ...

    async def list(self, key: SessionKey, message_id: str) -> Sequence[PushConfig]:
        """Returns all subscriptions of that message, by id."""
        ...

    async def remove(self, key: SessionKey, message_id: str, id: str) -> None:
        """Deletes the subscription; its sender stops at the next step. Idempotent."""
        ...

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[Push]:
        """Claims due subscriptions: no living holder has them, and their sessions have new events since they were last checked.

        Costs one read when there are none.
        """
        ...

    async def held(self, holder: str) -> Collection[PushPlace]:
        """Returns all claims of the holder. A missing one was lost."""
        ...

    async def tell(self, place: PushPlace, holder: str, told: int) -> bool:
        """Records the last delivered event. Returns False when the holder lost its claim."""
        ...

    async def leave(self, place: PushPlace, holder: str, *, seen: int | None) -> None:
        """Releases the claim. It is due again once its session has an event above the number `seen`; None means never."""
        ...

    async def give_up(self, holder: str) -> None:
        """Releases all claims of the holder; they are due at once."""
        ...


@runtime_checkable
class KeepsPushes(Protocol):
    """A session store that also stores push subscriptions."""

    @property
    def pushes(self) -> Pushes: ...
