"""Tells the other processes which agents this one answers with."""

from turnwise.ports.stores import Lease, SessionStore
from turnwise.runner.agent_sets import AgentSet, AgentSets


class Introduction:
    """Stores the names of the agents that serve, beside the heartbeat of this process, and again when they change.

    Args:
        store: The store of the sessions.
        sets: The agents of this process.
        lease: The holder that answers with them.
        app: The app.
    """

    def __init__(self, store: SessionStore, sets: AgentSets, lease: Lease, app: str) -> None:
        self._store, self._sets, self._lease, self._app = store, sets, lease, app
        self._told: AgentSet | None = None

    async def refresh(self) -> None:
        """Stores the names, unless they are stored. Raises the store's errors."""
        current = self._sets.current
        if current is self._told:
            return
        await self._store.leases.introduce(self._lease, self._app, frozenset(card.name for card in current.tree))
        self._told = current
