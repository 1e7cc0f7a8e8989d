"""Messages that are answered outside this handle: by another process, or before."""

from collections.abc import Callable

from turnwise.facts.events import USER
from turnwise.facts.sessions import Session
from turnwise.ports.signals import Watch
from turnwise.ports.stores import SessionStore
from turnwise.runner.continuation import is_being_answered
from turnwise.runner.job import Job
from turnwise.runner.recovery import orphan_of

FIRST_LOOK_SECONDS = 0.02


class Follower:
    """Gives a job's readers the events of its invocation as they are stored, and partial ones as signals carry them.

    It stops where the message's answer does: at the end, at a wait, or at the user's next message. With `whole`, all
    messages of the invocation are followed. `take_up` is called when nobody answers any more: it is to be recovered.
    """

    def __init__(
        self, store: SessionStore, job: Job, invocation_id: str, take_up: Callable[[], object], *, whole: bool = False
    ) -> None:
        self._store, self._job, self._id, self._take_up = store, job, invocation_id, take_up
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
                if session is not None and orphan_of(session) is not None:
                    self._take_up()
                self._revision = session.revision if session is not None else -1
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
        open_ = session.head.invocations.get(self._id) if session else None
        if session is None or open_ is None:
            return True
        return open_.state == "waiting" and not is_being_answered(session, open_)

    async def _listen(self, watch: Watch, seconds: float) -> None:
        """Passes partial events on until something was stored, or for that long."""
        while (event := await watch.next(seconds)) is not None:
            if self._begun and event.invocation_id == self._id:
                self._job.invocation.feed.publish(event)
