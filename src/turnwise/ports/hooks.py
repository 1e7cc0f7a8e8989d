"""Who may watch. A hook never decides: what it returns is ignored, and what it raises is logged."""

from typing import Protocol, runtime_checkable

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
        """An invocation ended, waits (`waiting`), or was lost (`lost`): to another process, which answers on, or because the
        store cannot be reached; then it is taken up again later.
        """
        ...


@runtime_checkable
class PieceHooks(Hooks, Protocol):
    """A hook that also wants to know when an answer begins to come."""

    async def shown(self, key: SessionKey, event: Event) -> None:
        """The first piece of an answer's text was shown to whoever reads it: a partial event. Not told where nobody wants
        pieces; once more when the answer is begun again.
        """
        ...
