"""Recovers work that a dead process left: starts another attempt at the invocation, or ends it."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.facts.content import Content
from turnwise.facts.errors import RevisionUnavailable, SessionBusy, StaleWriter
from turnwise.facts.events import Branch, End, Event, Rewind, StepRecord
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.runner.agent_sets import AgentSets, Hold
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.open_invocations import (
    Continuation,
    LeftToOtherProcesses,
    Orphan,
    UnknownAgents,
    message_of_orphan,
    orphan_end,
    orphan_of,
    timed_out_waits,
)
from turnwise.runner.message.planning import Plan, ending_events
from turnwise.runner.record.events import closing_events, empty_event, error_text, message_of_event, revision_of, steps_of
from turnwise.runner.record.journal import inherited_steps
from turnwise.runner.turn.state import Services


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """An unfinished invocation of a dead process."""

    run: MessageRun
    """The message that was being answered."""
    session: Session
    orphan: Orphan
    message_event: Event
    """The event that holds the message."""
    steps: tuple[StepRecord, ...]
    """The recorded steps that the next attempt inherits."""
    revision: int
    """The revision of the agents that the invocation began with."""
    events: Sequence[Event]
    """All events from the message on, including hidden ones."""

    @property
    def attempt(self) -> int:
        """The number of the next attempt."""
        return self.orphan.open.attempt + 1


class Recovery:
    """Finds and resumes the unfinished work of a session. Keeps no state between sessions.

    Args:
        config: The configuration of messages that came without one.
        unknown: Decides which work is left to processes that know its agent.
    """

    def __init__(self, services: Services, sets: AgentSets, driver: Driver, config: RunConfig, unknown: UnknownAgents) -> None:
        self._services, self._sets, self._driver, self._config, self._unknown = services, sets, driver, config, unknown

    async def find_unfinished(self, key: SessionKey) -> UnfinishedWork | None:
        """Returns the session's unfinished work; None when there is none, or another process holds the session.

        Raises LeftToOtherProcesses when only other processes know the agent.
        """
        session = await self._services.store.open(key)
        orphan = orphan_of(session, self._driver.lease.holder) if session else None
        if session is None or orphan is None:
            return None
        visible = await self._services.store.events(key, invocation_id=orphan.invocation_id)
        revision = revision_of(visible)
        if session.stop != orphan.invocation_id and await self._leaves(key, orphan, revision):
            raise LeftToOtherProcesses
        message_event = message_of_orphan(visible)
        if message_event is None:
            # A rewind hid it between the two reads.
            return None
        everything = await self._services.store.events(
            key, after=(message_event.sequence or 1) - 1, invocation_id=orphan.invocation_id, hidden=True
        )
        message = await message_of_event(self._services.store, key, message_event)
        run = MessageRun(key, message, message.config or self._config)
        run.accept()
        steps = inherited_steps(visible, orphan.open.since)
        return UnfinishedWork(run, session, orphan, message_event, steps, revision, everything)

    async def _leaves(self, key: SessionKey, orphan: Orphan, revision: int) -> bool:
        """Returns whether to leave the work to a process that knows its agent."""
        with self._sets.hold() as hold:
            try:
                await hold.switch(revision)
            except RevisionUnavailable:
                return False  # no process can make the agent
            return self._unknown.leaves_answer(key, orphan.invocation_id, orphan.open, hold.agent_set)

    async def settle(self, key: SessionKey, *, is_due: bool) -> Session | None:
        """Ends the waits that have expired, and releases the lease of a dead process, in a session without unfinished work.

        Args:
            key: The session.
            is_due: True if there may be something to end or release. False only reads the session.

        Returns:
            The session as it was read; None when there is none.
        """
        session = await self._services.store.open(key)
        if is_due and session is not None and not session.held and orphan_of(session) is None:
            over = timed_out_waits(session.head, self._services.issuer.now())
            events = await ending_events(self._services, session, over)
            try:
                await self._driver.append_between_runs(session, events)
            except (SessionBusy, StaleWriter):
                return session
        return session

    async def resume(self, unfinished: UnfinishedWork) -> Session | None:
        """Runs the work again from the beginning of its turn, or ends it. Returns as `Driver.serve`.

        Raises SessionBusy or StaleWriter when another process was faster; nothing was done then.
        """
        feed = unfinished.run.invocation.feed
        for event in unfinished.events:
            feed.publish(event)
        with self._sets.hold() as hold:
            return await self._resume_with(hold, unfinished)

    async def _resume_with(self, hold: Hold, unfinished: UnfinishedWork) -> Session | None:
        """Starts the next attempt with the agents that the invocation began with. Ends the invocation if it may not go on."""
        end = None
        try:
            await hold.switch(unfinished.revision)
        except RevisionUnavailable as problem:
            end = End(reason="failed", detail=error_text(problem))
        limit = unfinished.run.config.limits.attempts
        end = end or orphan_end(unfinished.orphan, unfinished.session, hold.agent_set.tree, limit)
        if end is not None:
            return await self._close(unfinished, end)
        recorder = self._driver.recorder(
            unfinished.run, unfinished.session, unfinished.orphan.invocation_id, unfinished.attempt
        )
        await recorder.take([self._beginning(unfinished)])
        return await self._driver.run(unfinished.run, recorder, _plan(unfinished), hold)

    async def _close(self, unfinished: UnfinishedWork, end: End) -> Session:
        """Takes the lease, stores the invocation's end, and closes the feed. Returns the session after it."""
        recorder = self._driver.recorder(
            unfinished.run, unfinished.session, unfinished.orphan.invocation_id, unfinished.orphan.open.attempt
        )
        head, holder = unfinished.session.head, unfinished.orphan.open.agent
        steps = await steps_of(self._services.store, unfinished.session, unfinished.orphan.invocation_id)
        closing = closing_events(self._services.issuer, head, unfinished.orphan.invocation_id, holder, end, steps=steps)
        await recorder.take(closing, release=True)
        await recorder.wait_for_hooks()
        unfinished.run.invocation.feed.close()
        return recorder.session

    def _beginning(self, unfinished: UnfinishedWork) -> Event:
        """Returns the event that begins the next attempt. It hides the last attempt's events of the turn and keeps its
        steps.
        """
        id_, open_ = unfinished.orphan
        event = empty_event(self._services.issuer, open_.agent, id_, Branch.of_turn(open_.turn))
        rewind = Rewind(from_sequence=open_.since + 1, invocation_id=id_)
        return event.with_actions(rewind=rewind, steps=unfinished.steps)


def _plan(unfinished: UnfinishedWork) -> Plan:
    """Returns the plan that the log holds for the message."""
    id_, open_ = unfinished.orphan
    selection = unfinished.message_event.actions.selection
    assert selection is not None
    continues = Continuation(id_, open_.agent, open_.turn, unfinished.message_event.actions.answers)
    content = unfinished.message_event.actions.brief or unfinished.message_event.content or Content()
    return Plan(unfinished.session, content, (), selection, id_, continues)
