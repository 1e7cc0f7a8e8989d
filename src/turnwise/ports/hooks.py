"""The protocol of hooks. A hook only observes: its return value is ignored, and its exceptions are logged."""

from typing import Protocol, runtime_checkable

from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey


class Hooks(Protocol):
    """Observes decisions, stored events, and the ends of invocations."""

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Called after a decision was stored."""
        ...

    async def stored(self, key: SessionKey, event: Event) -> None:
        """Called after an event was stored. The event holds the keys of steps, but not their values."""
        ...

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        """Called when an invocation ended, waits (`waiting`), or was lost (`lost`).

        A lost invocation continues in another process, or is recovered once the store is reachable again.
        """
        ...


@runtime_checkable
class PieceHooks(Hooks, Protocol):
    """A hook that also observes the first piece of an answer."""

    async def shown(self, key: SessionKey, event: Event) -> None:
        """Called with the partial event that holds the first piece of an answer's text.

        Not called when partial events are off. Called again when the answer begins again.
        """
        ...
