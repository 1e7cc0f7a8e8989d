"""Prices of operations on sessions, in requests: an operation counts by the data that it touches."""

from turnwise.access.quotas import Quotas
from turnwise.facts.callers import Caller
from turnwise.facts.sessions import Session, SessionKey
from turnwise.runner import Runner
from turnwise.runner.limited_artifacts import copied_bytes

CHANGE, FORK = 2, 4
"""The price of a rewind or deletion, and of a fork, before its data."""
EVENTS, BYTES = 1_000, 1024 * 1024
"""The number of events, or of bytes, that costs one more request."""
EXCHANGES, SESSIONS = 10, 10
"""The number of imported exchanges, or of sessions of a deleted user, that costs one more request."""


class Prices:
    """Counts operations for the quotas of their callers. Every method raises TooMany before anything is done."""

    def __init__(self, runner: Runner, quotas: Quotas, caller: Caller) -> None:
        self._runner, self._quotas, self._caller = runner, quotas, caller

    async def change(self, key: SessionKey) -> None:
        """Counts a rewind, a regeneration or a deletion, by the session's log."""
        await self._quotas.work(self._caller, key.user, CHANGE + log_price(await self._runner.store.open(key)))

    async def fork(self, key: SessionKey) -> None:
        """Counts a fork, by the artifacts that it copies: it shares the events."""
        artifacts = self._runner.artifacts
        size = 0 if artifacts is None else await copied_bytes(artifacts, key)
        await self._quotas.work(self._caller, key.user, FORK + size // BYTES)

    async def delete_user(self, user: str) -> None:
        """Counts the deletion of all data of a user, by its sessions and their logs."""
        usage = await self._runner.store.maintenance.usage(self._runner.app, user)
        await self._quotas.work(self._caller, user, CHANGE + usage.sessions // SESSIONS + usage.bytes // BYTES)

    async def search(self, session: Session) -> None:
        """Counts a search in the whole log of a session."""
        await self._quotas.work(self._caller, session.key.user, log_price(session))

    async def imports(self, key: SessionKey, exchanges: int) -> None:
        """Counts an import, by its exchanges. Its bytes were counted when they were received."""
        await self._quotas.work(self._caller, key.user, exchanges // EXCHANGES)


def log_price(session: Session | None) -> int:
    """Returns the price of working on a session's whole log; 0 without a session."""
    return 0 if session is None else session.last_sequence // EVENTS + session.bytes // BYTES
