"""The only writer of a session: appends events, publishes them to the feed, and dispatches them to the hooks."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any

from turnwise.facts.errors import StaleWriter, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey, storable
from turnwise.ports.context import is_stopped
from turnwise.ports.hooks import Hooks, PieceHooks
from turnwise.ports.stores import Lease, SessionStore
from turnwise.runner.record.feed import EventFeed
from turnwise.runner.record.journal import public_event

HOOK_SECONDS = 5.0
"""The timeout of one hook call, and the time that the end of an invocation waits for pending hook calls."""
WAITING, LOST = "waiting", "lost"
"""The reasons that hooks get instead of an end: the invocation waits, or this process has lost it."""

log = logging.getLogger("turnwise.runner")


class HookDispatcher:
    """Calls the hooks of one session in order. A hook's exception is logged; a slow hook delays only hooks."""

    def __init__(self, hooks: Sequence[Hooks], key: SessionKey) -> None:
        self._hooks, self._key = hooks, key
        self._pending: deque[tuple[Sequence[Event], tuple[str, str] | None]] = deque()
        self._task: asyncio.Task[None] | None = None

    def dispatch(self, stored: Sequence[Event], *, outcome: tuple[str, str] | None = None) -> None:
        """Queues stored events, or the first piece of an answer, for the hooks.

        Args:
            stored: The events. Hooks get their public form.
            outcome: The id of an invocation that does not end with them, and WAITING or LOST.
        """
        if not self._hooks:
            return
        self._pending.append(([public_event(event) for event in stored], outcome))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def wait_for_hooks(self) -> None:
        """Waits until all queued calls are made, at most HOOK_SECONDS. Later calls are still made."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=HOOK_SECONDS)

    async def _work(self) -> None:
        while self._pending:
            stored, outcome = self._pending.popleft()
            for call in self._calls(stored, outcome):
                await _call_hook(call)

    def _calls(self, stored: Sequence[Event], outcome: tuple[str, str] | None) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yields each hook's calls: for the events in order, then for the outcome: an invocation's id and why it ended."""
        for hook in self._hooks:
            for event in stored:
                if event.partial:
                    if isinstance(hook, PieceHooks):
                        yield partial(hook.shown, self._key, event)
                    continue
                yield partial(hook.stored, self._key, event)
                if event.actions.selection:
                    yield partial(hook.selected, self._key, event.actions.selection)
                if event.actions.end:
                    yield partial(hook.ended, self._key, event.invocation_id, event.actions.end.reason)
            if outcome is not None:
                yield partial(hook.ended, self._key, *outcome)


async def _call_hook(call: Callable[[], Awaitable[None]]) -> None:
    """Calls one hook, for at most HOOK_SECONDS. Logs what it raises."""
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(HOOK_SECONDS):
            if isawaitable(result := call()):  # a sync hook has already done its work
                await result
    except BaseException as error:
        if is_stopped(error, task):
            raise
        log.exception("A hook raised.")


class Recorder:
    """Writes one attempt at an invocation: holds the session's token and lease, and publishes the events.

    After a failed append or a lost lease, every further write raises (behaviour A21).
    """

    def __init__(
        self,
        store: SessionStore,
        session: Session,
        lease: Lease,
        feed: EventFeed,
        hooks: Sequence[Hooks],
        invocation_id: str,
        attempt: int = 1,
    ) -> None:
        self.session = session
        self.problem: TurnwiseError | None = None
        self._store, self._lease, self._feed = store, lease, feed
        self._hook_dispatcher = HookDispatcher(hooks, session.key)
        self._invocation_id, self._attempt = invocation_id, attempt
        self._signals = store.signals
        self._on_lost: Callable[[], object] | None = None
        self._confirmed = 0.0
        self._has_shown = False
        self.asks_for_jobs = False
        """True if a stored event requests a background job."""
        self.remembers = False
        """True if a stored event has entries for the user's memory."""
        self._lock = asyncio.Lock()

    async def begin(
        self, message: Message, events: Sequence[Event], *, queue_limit: int | None, new: bool, revision: int | None
    ) -> None:
        """Takes the lease and stores the first events, in one transaction, as `SessionStore.begin`."""
        first = self.session.last_sequence + 1
        self.session = await self._store.begin(
            self.session, self._lease, message, events, queue_limit=queue_limit, new=new, revision=revision
        )
        self._mark_confirmed()
        self._announce(events, first)

    async def take(self, events: Sequence[Event], *, release: bool = False) -> None:
        """Takes the lease of an abandoned session and stores these events, in one transaction."""
        first = self.session.last_sequence + 1
        events = self._stamped(events)
        self.session = await self._store.take(self.session, self._lease, events, release=release)
        if release:
            self.stop_writing(StaleWriter("The invocation has ended."))
        else:
            self._mark_confirmed()
        self._announce(events, first)

    async def confirm(self) -> None:
        """Checks that this process still holds the session; asks the store when the last write or check is older than the
        lease's timeout.

        A process that was suspended learns here that it lost the session. Raises StaleWriter, StoreError.
        """
        if self.problem:
            raise self.problem
        asked = asyncio.get_running_loop().time()
        if asked - self._confirmed > self._lease.seconds:
            try:
                await self._store.leases.check(self.session)
            except TurnwiseError as problem:
                self.stop_writing(problem)
                raise
            self._confirmed = asked

    async def check_lease(self) -> None:
        """Stops the run if another process took the session over. Raises StoreError."""
        if self.problem:
            return
        try:
            await self._store.leases.check(self.session)
        except StaleWriter as lost:
            self.stop_writing(lost)
            if self._on_lost is not None:
                self._on_lost()

    async def release(self) -> None:
        """Releases the session without another append, then waits for the hooks."""
        self.stop_writing(StaleWriter("The invocation has ended."))
        await self._store.leases.release(self.session)
        await self.wait_for_hooks()

    def on_lost(self, stop: Callable[[], object]) -> None:
        """Registers a callback for the loss of the lease: another process then runs the invocation."""
        self._on_lost = stop

    async def append(self, events: Sequence[Event], *, release: bool = False) -> None:
        """Stores the events in order; with `release`, releases the session too. A cancellation does not interrupt the write.

        Raises the store's error; every later call then raises it again.
        """
        task = asyncio.create_task(self._append(events, release))
        task.add_done_callback(_consume_exception)
        await asyncio.shield(task)

    def report_lost(self) -> None:
        """Tells the hooks that this process lost the invocation; another process, or a later recovery, continues it."""
        self._hook_dispatcher.dispatch((), outcome=(self._invocation_id, LOST))

    async def wait_for_hooks(self) -> None:
        """Waits until the hooks have run, at most HOOK_SECONDS."""
        await self._hook_dispatcher.wait_for_hooks()

    def show(self, event: Event) -> None:
        """Publishes a partial event, with the number of the attempt that its final event will have."""
        (event,) = self._stamped((event,))
        self._feed.publish(event)
        if not self._has_shown and event.text and not event.is_private:
            self._has_shown = True
            self._hook_dispatcher.dispatch([event])
        self._signals.partial(self.session.key, event)

    def stop_writing(self, problem: TurnwiseError) -> None:
        """Refuses all further writes with this problem, so that an agent that ignores its cancellation cannot write."""
        self.problem = self.problem or problem

    async def _append(self, events: Sequence[Event], release: bool) -> None:
        """Stores numbered events under the lock, then announces them. A failure, or `release`, ends all further writing."""
        async with self._lock:
            if self.problem:
                raise self.problem
            first = self.session.last_sequence + 1
            events = self._stamped(events)
            try:
                self.session = await self._store.append(self.session, events, release=release)
            except TurnwiseError as problem:
                self.stop_writing(problem)
                raise
            self._mark_confirmed()
            if release:
                # No writes after the end, not even by a task that an agent left running.
                self.stop_writing(StaleWriter("The invocation has ended."))
            self._announce(events, first, waits=release and not any(e.actions.end for e in events))

    def _announce(self, events: Sequence[Event], first: int, *, waits: bool = False) -> None:
        """Publishes stored events to the feed, queues the hooks' calls, and wakes readers in other processes."""
        stored = numbered_events(events, first)
        self.asks_for_jobs = self.asks_for_jobs or any(event.actions.jobs for event in stored)
        self.remembers = self.remembers or any(event.actions.remembered for event in stored)
        for event in stored:
            # A message may also end older, expired invocations; those events do not belong to its answer.
            if event.invocation_id == self._invocation_id:
                self._feed.publish(event)
        self._hook_dispatcher.dispatch(stored, outcome=(self._invocation_id, WAITING) if waits else None)
        self._signals.changed(self.session.key)

    def _stamped(self, events: Sequence[Event]) -> Sequence[Event]:
        if self._attempt == 1:
            return events
        return [event.replace(attempt=self._attempt) for event in events]

    def _mark_confirmed(self) -> None:
        self._confirmed = asyncio.get_running_loop().time()


async def append_between_runs(
    store: SessionStore,
    hooks: Sequence[Hooks],
    session: Session,
    lease: Lease,
    events: Sequence[Event],
    *,
    empty_inbox: bool = False,
) -> Session:
    """Appends to a session that no process holds, outside of any invocation. Notifies readers and hooks.

    Args:
        lease: Must not use the holder of a running loop, which may be about to answer in the session.
        empty_inbox: As for `SessionStore.take`.

    Raises:
        SessionBusy: Another process holds the session.
        StaleWriter: The session has changed since it was read.
    """
    written = await store.take(session, lease, events, release=True, empty_inbox=empty_inbox)
    store.signals.changed(session.key)
    dispatcher = HookDispatcher(hooks, session.key)
    dispatcher.dispatch(numbered_events(events, session.last_sequence + 1))
    await dispatcher.wait_for_hooks()
    return written


def numbered_events(events: Sequence[Event], first: int) -> list[Event]:
    """Returns the events as stored, numbered from `first`."""
    return [storable(event).replace(sequence=first + i) for i, event in enumerate(events)]


def _consume_exception(task: asyncio.Task[Any]) -> None:
    # The caller may have been cancelled; the recorder keeps the problem.
    if not task.cancelled():
        task.exception()
