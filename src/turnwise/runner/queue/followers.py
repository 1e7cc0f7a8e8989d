"""Handles of messages that another process answers: they follow the stored events, or leave the queue."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Protocol

from turnwise.facts.errors import SessionBusy, SessionError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.signals import Signals, Watch
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.open_invocations import is_over

FIRST_LOOK_SECONDS = 0.02
"""The shortest first pause between two reads of the store."""
PAGE_EVENTS, PAGE_BYTES = 500, 256 * 1024
"""How many stored events a follower reads at once. It reads more when a reader has taken them."""
ABANDONED_SECONDS = 30.0
"""How long a follower keeps the events that it has read after all readers have gone."""
RECOVERY_SECONDS = 5.0
"""The longest pause between attempts to recover a session."""

Recover = Callable[[Session], bool]


def first_pause(signals: Signals, least: float) -> float:
    """Returns the first of growing pauses between two reads of the store: where signals come from other processes, reads
    only find what a lost signal would have told.
    """
    return max(least, signals.poll_seconds / 4)


class RemoteFollower:
    """Publishes the events of a remotely answered message to its readers: stored events, and partial events from signals.

    Stops at the end, at a wait, or at the user's next message.

    Args:
        recover: Recovers the session if no process answers there any more, and returns whether that was so.
        whole: Follow all messages of the invocation.
    """

    def __init__(
        self, store: SessionStore, run: MessageRun, invocation_id: str, recover: Recover, *, whole: bool = False
    ) -> None:
        self._store, self._run, self._id, self._recover = store, run, invocation_id, recover
        self._whole = whole
        self._seen = max((event.sequence or 0 for event in run.invocation.feed.stored), default=0)
        self._has_begun = whole or self._seen > 0
        self._revision = -1

    async def follow(self) -> None:
        """Returns when the run's feed is closed. Raises the store's errors."""
        signals = self._store.signals
        with signals.watch(self._run.key) as watch:
            first = pause = first_pause(signals, FIRST_LOOK_SECONDS)
            was_signalled = True
            while True:
                # A signal usually means that the answer's end is stored, so the log alone is read first.
                if was_signalled and await self._publish_page():
                    self._run.invocation.feed.close()
                    return
                session = await self._store.open(self._run.key)
                news = session is None or session.revision != self._revision
                # The session is read before its events, so an invocation that is over has all its events in the log.
                answered = news and await self._publish_stored(session.last_sequence if session is not None else 0)
                if answered or self._is_over(session):
                    self._run.invocation.feed.close()
                    return
                self._revision = session.revision if session is not None else -1
                if session is not None and self._recover(session):
                    # Look again soon; the pause grows while the recovery fails.
                    pause = min(2 * pause, RECOVERY_SECONDS)
                else:
                    pause = first if news else min(2 * pause, signals.poll_seconds)
                was_signalled = await self._publish_partials(watch, pause)

    async def _publish_stored(self, last: int) -> bool:
        """Publishes newly stored events, up to that number at least. Returns True when the answer ends."""
        while (seen := self._seen) < last:
            if await self._publish_page():
                return True
            if self._seen == seen:
                break
        return False

    async def _publish_page(self) -> bool:
        """Publishes the next stored events, and waits until they are taken. Returns True when the answer ends."""
        page = await self._next_page()
        if self._publish(page):
            return True
        if page and not await self._run.invocation.feed.wanted(ABANDONED_SECONDS):
            raise reader_gone()
        return False

    def _publish(self, page: Sequence[Event]) -> bool:
        """Publishes stored events. Returns True when the answer ends: with its end, or before the user's next message."""
        for event in page:
            self._seen = event.sequence or self._seen
            if self._has_begun and not self._whole and event.author == USER:
                return True
            self._has_begun = self._has_begun or event.id == self._run.event_id
            if self._has_begun:
                self._run.invocation.feed.publish(event)
                # After a rewind an invocation may end a second time, so an end does not end a whole one.
                if event.actions.end and not self._whole:
                    return True
        return False

    async def _next_page(self) -> Sequence[Event]:
        return await self._store.events(
            self._run.key, after=self._seen, invocation_id=self._id, hidden=True, limit=PAGE_EVENTS, max_bytes=PAGE_BYTES
        )

    def _is_over(self, session: Session | None) -> bool:
        return session is None or is_over(session, self._id)

    async def _publish_partials(self, watch: Watch, seconds: float) -> bool:
        """Publishes partial events until a signal says that something was stored, or for that many seconds.

        Returns True for a signal.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (event := await watch.next(seconds)) is not None:
            if self._has_begun and event.invocation_id == self._id:
                self._run.invocation.feed.publish(event)
            until = clock() + seconds
        return clock() < until


class LocalRuns(Protocol):
    """The runs of this process, as followers need them."""

    def running(self) -> Sequence[MessageRun]: ...
    def is_abandoned(self, session: Session) -> bool: ...
    def announce(self, key: SessionKey) -> None: ...


class Followers:
    """Starts and owns the tasks that follow messages answered elsewhere or earlier."""

    def __init__(self, store: SessionStore, local: LocalRuns) -> None:
        self._store, self._local = store, local
        self._following: set[asyncio.Task[None]] = set()
        self._requests: set[asyncio.Task[None]] = set()

    def share_or_follow(self, run: MessageRun, receipt: Receipt) -> None:
        """Shares the handle of the run if this process answers the message; otherwise follows it. For handles without
        readers.
        """
        for running in self._local.running():
            if running.key == run.key and running.message.id == run.message.id:
                run.invocation = running.invocation
                return
        self.follow(run, receipt)

    def follow(self, run: MessageRun, receipt: Receipt) -> None:
        """Follows a message that was started, or fails the run with the reason for its refusal."""
        if receipt.invocation_id is None:
            run.fail(earlier_refusal(receipt))
            return
        self.follow_invocation(run, receipt.invocation_id)

    def follow_invocation(self, run: MessageRun, invocation_id: str, *, whole: bool = False) -> None:
        """Follows the message in that invocation, or with `whole`, the complete invocation."""
        run.invocation.set_running(invocation_id, lambda: self._stop(run, invocation_id))
        follower = RemoteFollower(self._store, run, invocation_id, self._recover_if_abandoned, whole=whole)
        task = _spawn(self._following, self._follow(run, follower))
        # Also when the task never started: otherwise readers would wait forever.
        task.add_done_callback(lambda _: run.invocation.feed.close(runner_closed()))
        if run.invocation.is_cancelled:
            self._stop(run, invocation_id)

    def withdraw(self, run: MessageRun, then: Callable[[], Awaitable[None]]) -> None:
        """Removes a queued message from the inbox, or stops it if another process has begun it. Then calls `then`."""
        _spawn(self._requests, self._withdraw(run, then))

    async def wait_withdrawn(self) -> None:
        """Waits until all withdrawals and stop requests are stored."""
        while self._requests:
            await asyncio.wait([*self._requests])

    async def close(self) -> None:
        """Ends all tasks. Their readers get an error that tells them to retry."""
        await self.wait_withdrawn()
        for task in (following := [*self._following]):
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    def _recover_if_abandoned(self, session: Session) -> bool:
        """Has the session recovered if no process answers there. Returns whether that was so."""
        if not self._local.is_abandoned(session):
            return False
        self._local.announce(session.key)
        return True

    async def _follow(self, run: MessageRun, follower: RemoteFollower) -> None:
        try:
            await follower.follow()
        except TurnwiseError as problem:
            run.invocation.feed.close(problem)

    def _stop(self, run: MessageRun, invocation_id: str) -> None:
        if not run.invocation.feed.is_closed:
            _spawn(self._requests, self._request_stop(run, invocation_id))

    async def _request_stop(self, run: MessageRun, invocation_id: str) -> None:
        try:
            await self._store.leases.stop(run.key, invocation_id)
        except TurnwiseError as problem:
            run.invocation.feed.close(problem)

    async def _withdraw(self, run: MessageRun, then: Callable[[], Awaitable[None]]) -> None:
        """Refuses the queued message in the inbox. If another process has begun it, follows its answer. Then awaits `then`."""
        try:
            await self._store.inbox.refuse(run.key, run.message.id, "cancelled")
            receipt = await self._store.inbox.receipt(run.key, run.message.id)
        except TurnwiseError as problem:
            run.fail(problem)
            return
        if receipt is not None and receipt.state == "started":
            self.follow(run, receipt)
        else:
            run.invocation.feed.close()
        with suppress(TurnwiseError):
            await then()


def reader_gone() -> SessionError:
    """Returns the error of a replay when its readers go away in the middle of it."""
    return SessionError(f"Nobody has read these events for {ABANDONED_SECONDS:g} seconds.", fix="Attach to the message again.")


def earlier_refusal(receipt: Receipt) -> SessionError:
    """Returns the error for a message that was refused before."""
    return SessionError(f"Message {receipt.message.id!r} was refused before: {receipt.problem}.", fix="Send it under a new id.")


def _spawn(tasks: "set[asyncio.Task[None]]", work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    """Starts a task and keeps a reference to it until it is done, so that it is not garbage collected."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def runner_closed() -> SessionBusy:
    """Returns the error for readers of a runner that closes while another process answers."""
    return SessionBusy("The runner was closed while another process answers.", fix="Ask again by the message's id.")
