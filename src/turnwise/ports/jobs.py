"""What an agent is that does background jobs: work that it asked for in its turn, and that is done after it."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from turnwise.facts.events import Actions, Event
from turnwise.ports.stores import BackgroundJob


class LogPages(Protocol):
    """The log of a job's session as it is now, without hidden events."""

    def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        """Pages from the newest to the oldest, each oldest first; at most limits.history_events in all."""
        ...


@runtime_checkable
class DoesJobs(Protocol):
    """An agent that does the jobs that it asks for."""

    async def do_job(self, job: BackgroundJob, log: LogPages) -> Actions | None:
        """Does the job. Its result is put on record as an event of the agent; None = there is nothing to record.

        Only `summary` and `usage` are recorded. It may be called again for the same job: what it raises is logged, and the
        job is tried again a few times.
        """
        ...
