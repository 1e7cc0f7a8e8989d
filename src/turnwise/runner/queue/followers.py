"""The handles whose messages are not answered through them: they follow, or leave the line."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from turnwise.facts.errors import SessionBusy, SessionError, TurnwiseError
from turnwise.facts.events import USER
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.signals import Watch
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.message.continuation import is_over
from turnwise.runner.message.invocation import MessageRun

FIRST_LOOK_SECONDS = 0.02
RECOVERY_SECONDS = 5.0
"""The longest pause between attempts to recover what cannot be recovered."""

Recover = Callable[[Session], bool]


class RemoteFollower:
    """Gives a job's readers the events of its invocation as they are stored, and partial ones as signals carry them.

    It stops where the message's answer does: at the end, at a wait, or at the user's next message. With `whole`, all
    messages of the invocation are followed. `recover` takes the session up if nobody answers there any more, and tells
    whether that was so.
    """

    def __init__(
        self, store: SessionStore, job: MessageRun, invocation_id: str, recover: Recover, *, whole: bool = False
    ) -> None:
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


class LocalRuns(Protocol):
    """What runs in this process, as those who follow need it."""

    def running(self) -> Sequence[MessageRun]: ...
    def is_abandoned(self, session: Session) -> bool: ...
    def take_up(self, key: SessionKey) -> "asyncio.Task[None]": ...


class Followers:
    """Starts and keeps the tasks that follow what is answered elsewhere, or was before."""

    def __init__(self, store: SessionStore, here: LocalRuns) -> None:
        self._store, self._here = store, here
        self._following: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def share_or_follow(self, job: MessageRun, receipt: Receipt) -> None:
        """For a handle that nobody reads yet: it becomes that of the run, if the message is answered here."""
        for running in self._here.running():
            if running.key == job.key and running.message.id == job.message.id:
                job.invocation = running.invocation
                return
        self.follow(job, receipt)

    def follow(self, job: MessageRun, receipt: Receipt) -> None:
        """Lets the job's readers see what is stored of a message that was started, or why it was refused."""
        if receipt.invocation_id is None:
            job.fail(earlier_refusal(receipt))
            return
        self.follow_invocation(job, receipt.invocation_id)

    def follow_invocation(self, job: MessageRun, invocation_id: str, *, whole: bool = False) -> None:
        """Lets the job's readers see what is stored of the message in that invocation, or of the `whole` of it."""
        job.invocation.runs(invocation_id, lambda: self._stop(job, invocation_id))
        follower = RemoteFollower(self._store, job, invocation_id, self._recover_if_abandoned, whole=whole)
        task = _kept(self._following, self._follow(job, follower))
        # Also when it never came to run: nobody waits for a feed that nobody fills.
        task.add_done_callback(lambda _: job.invocation.feed.close(_closed()))
        if job.invocation.is_cancelled:
            self._stop(job, invocation_id)

    def withdraw(self, job: MessageRun) -> None:
        """Takes a queued message out of the inbox, or stops it if another process has begun it."""
        _kept(self._asking, self._withdraw(job))

    async def withdrawn(self) -> None:
        """Returns when everything that was to be withdrawn or stopped is so on record."""
        while self._asking:
            await asyncio.wait([*self._asking])

    async def close(self) -> None:
        """Ends all of them; their readers are told to ask again."""
        await self.withdrawn()
        for task in (following := [*self._following]):
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    def _recover_if_abandoned(self, session: Session) -> bool:
        """Has the session taken up if nobody answers there any more; whether that was so."""
        if not self._here.is_abandoned(session):
            return False
        self._here.take_up(session.key)
        return True

    async def _follow(self, job: MessageRun, follower: RemoteFollower) -> None:
        try:
            await follower.follow()
        except TurnwiseError as problem:
            job.invocation.feed.close(problem)

    def _stop(self, job: MessageRun, invocation_id: str) -> None:
        if not job.invocation.feed.is_closed:
            _kept(self._asking, self._ask_to_stop(job, invocation_id))

    async def _ask_to_stop(self, job: MessageRun, invocation_id: str) -> None:
        try:
            await self._store.leases.stop(job.key, invocation_id)
        except TurnwiseError as problem:
            job.invocation.feed.close(problem)

    async def _withdraw(self, job: MessageRun) -> None:
        try:
            await self._store.inbox.refuse(job.key, job.message.id, "cancelled")
            receipt = await self._store.inbox.receipt(job.key, job.message.id)
        except TurnwiseError as problem:
            job.fail(problem)
            return
        if receipt is not None and receipt.state == "started":
            self.follow(job, receipt)
        else:
            job.invocation.feed.close()


def earlier_refusal(receipt: Receipt) -> SessionError:
    """The error for who asks for a message that was refused."""
    return SessionError(f"Message {receipt.message.id!r} was refused before: {receipt.problem}.", fix="Send it under a new id.")


def _kept(tasks: "set[asyncio.Task[None]]", work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    """A task that is referred to until it is done, so that it is not collected before."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _closed() -> SessionBusy:
    return SessionBusy("The runner was closed while another process answers.", fix="Ask again by the message's id.")
