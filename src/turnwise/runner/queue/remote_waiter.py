"""Waits for other processes to take the messages of one session queue, so that this process's readers can follow them."""

from turnwise.facts.errors import TurnwiseError
from turnwise.ports.stores import SessionStore
from turnwise.runner.queue.followers import first_pause, runner_closed
from turnwise.runner.queue.queue import InboxQueue, SessionQueue

FIRST_LOOK_SECONDS = 0.05
"""The shortest first pause between two reads of the store. Signals end it early."""


class RemoteWaiter:
    """Waits while messages of the queue are in the inbox. An engine decides which process takes them, perhaps this one."""

    def __init__(self, store: SessionStore, queue: SessionQueue, inbox_queue: InboxQueue) -> None:
        self._store, self._queue, self._inbox_queue = store, queue, inbox_queue

    async def wait(self) -> None:
        """Returns when no message of the queue waits any more. Store errors fail the waiting runs; their messages stay."""
        try:
            await self._wait()
        except TurnwiseError as problem:
            self._fail(problem)
        except BaseException:
            self._fail(runner_closed())
            raise

    async def _wait(self) -> None:
        """Looks at the queue's messages at signals and at growing intervals, until other processes have taken all of them."""
        signals, seen = self._store.signals, (-1, -1)
        first = pause = first_pause(signals, FIRST_LOOK_SECONDS)
        with signals.watch(self._queue.key) as watch:
            while self._queue.waiting:
                # The messages were just accepted, so there is no news yet.
                while await watch.next(pause) is not None:
                    continue
                pause = signals.poll_seconds
                if len(self._queue.waiting) > 1:
                    # One read of the session tells whether it is worth to look at each message.
                    session = await self._store.open(self._queue.key)
                    now = (session.revision, session.queued) if session else (-1, 0)
                    if session is not None and now == seen:
                        continue
                    seen, pause = now, first
                await self._inbox_queue.send_on(self._queue)

    def _fail(self, problem: Exception) -> None:
        for run in self._queue.waiting.values():
            run.fail(problem)
        self._queue.waiting.clear()
