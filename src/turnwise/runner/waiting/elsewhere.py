"""Messages that are answered outside this handle: by another process, or before."""

from collections.abc import Callable

from turnwise.facts.events import USER
from turnwise.facts.sessions import Session
from turnwise.ports.signals import Watch
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.continuation import is_over
from turnwise.runner.message.job import Job

FIRST_LOOK_SECONDS = 0.02
RECOVERY_SECONDS = 5.0
"""The longest pause between attempts to recover what cannot be recovered."""

Recover = Callable[[Session], bool]


class Follower:
    """Gives a job's readers the events of its invocation as they are stored, and partial ones as signals carry them.

    It stops where the message's answer does: at the end, at a wait, or at the user's next message. With `whole`, all
    messages of the invocation are followed. `recover` takes the session up if nobody answers there any more, and tells
    whether that was so.
    """

    def __init__(self, store: SessionStore, job: Job, invocation_id: str, recover: Recover, *, whole: bool = False) -> None:
        self._store, self._job, self._id, self._recover = store, job, invocation_id, recover
        self._whole = whole
        self._seen = max((event.sequence or 0 for event in job.invocation.feed.stored), default=0)
        self._begun = whole or self._seen > 0
        self._revision = -1

    async def follow(self) -> None:
        """Returns when the job's feed is closed; raises what the store raised."""
        signals = self._store.signals
        with signals.watch(self._job.key) as watch:
            pause = FIRST_LOOK_SECONDS
            while True:
                session = await self._store.open(self._job.key)
                news = session is None or session.revision != self._revision
                # The session was read first: what it says is over has all its events in the log by now.
                answered = news and await self._pass_on()
                if answered or self._is_over(session):
                    self._job.invocation.feed.close()
                    return
                self._revision = session.revision if session is not None else -1
                if session is not None and self._recover(session):
                    # Again at once, unless it cannot be recovered now.
                    pause = min(2 * pause, RECOVERY_SECONDS)
                else:
                    pause = FIRST_LOOK_SECONDS if news else min(2 * pause, signals.poll_seconds)
                await self._listen(watch, pause)

    async def _pass_on(self) -> bool:
        """Publishes what was stored; True when the user's next message came after it."""
        for event in await self._store.events(self._job.key, after=self._seen, invocation_id=self._id, hidden=True):
            self._seen = event.sequence or self._seen
            if self._begun and not self._whole and event.author == USER:
                return True
            self._begun = self._begun or event.id == self._job.event_id
            if self._begun:
                self._job.invocation.feed.publish(event)
        return False

    def _is_over(self, session: Session | None) -> bool:
        return session is None or is_over(session, self._id)

    async def _listen(self, watch: Watch, seconds: float) -> None:
        """Passes partial events on until something was stored, or for that long."""
        while (event := await watch.next(seconds)) is not None:
            if self._begun and event.invocation_id == self._id:
                self._job.invocation.feed.publish(event)
