"""Jobs on their way through a thread, and back to whoever waits for them."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

Job = Callable[[Connection], T]
"""Work on a connection inside a transaction. It may run again after a rollback, so it changes nothing else."""


class Call(Generic[T]):
    """One job, and the future of the event loop that asked for it: any loop, not always the same."""

    def __init__(self, job: Job[T], *, reads: bool = False) -> None:
        self.job = job
        self.reads = reads
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: Exception | None = None

    def run(self, connection: Connection) -> bool:
        """Does the job; False when it failed."""
        self.result = self.error = None
        try:
            self.result = self.job(connection)
        except Exception as error:
            self.error = error
        return self.error is None

    def settle(self) -> None:
        # The waiter may have been cancelled; the job was done all the same.
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Hands results back from a thread, waking each event loop once."""
    waiting: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        waiting.setdefault(call.loop, []).append(call)
    for loop, its in waiting.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, its)


def _settle_all(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.settle()
