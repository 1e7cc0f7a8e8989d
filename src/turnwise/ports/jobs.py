"""The protocol of an agent that does background jobs, which it requests in its turn and which run after it."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from turnwise.facts.events import Actions, Event
from turnwise.ports.stores import BackgroundJob


class LogPages(Protocol):
    """The current log of a job's session, without hidden events."""

    def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        """Yields pages from the newest to the oldest, each oldest first, with at most limits.history_events in all."""
        ...


@runtime_checkable
class DoesJobs(Protocol):
    """An agent that does its own background jobs."""

    async def do_job(self, job: BackgroundJob, log: LogPages) -> Actions | None:
        """Does the job. It may be called again for the same job: exceptions are logged, and the job is retried a few times.

        Returns:
            Actions to record as an event of the agent, of which only `summary`, `usage` and `remembered` are kept. None records
            nothing.
        """
        ...
