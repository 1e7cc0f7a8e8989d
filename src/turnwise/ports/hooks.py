"""Who may watch. A hook never decides: what it returns is ignored, and what it raises is logged."""

from typing import Protocol

from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey


class Hooks(Protocol):
    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """A decision was made and stored."""
        ...

    async def stored(self, key: SessionKey, event: Event) -> None:
        """An event was stored. Of recorded steps it holds the keys, not what they gave."""
        ...

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        """An invocation ended, waits (`waiting`), or was lost to another process, which answers on (`lost`)."""
        ...
