"""Taking up what a dead process left: another attempt at its invocation, or its end."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.events import End, Event, Rewind, StepRecord
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.runner.message.continuation import Continuation
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.planning import Plan
from turnwise.runner.message.recovery_rules import (
    LeftToOtherProcesses,
    Orphan,
    UnknownAgents,
    message_of_orphan,
    orphan_end,
    orphan_of,
)
from turnwise.runner.record.events import closing_events, empty_event, message_of_event, steps_of, with_actions
from turnwise.runner.record.journal import inherited_steps
from turnwise.runner.turn.state import Runtime


class UnfinishedWork(NamedTuple):
    """What a dead process left of a session: the message it was answering, the work on record, and all that is stored of it
    from that message on.
    """

    job: MessageRun
    session: Session
    orphan: Orphan
    asked: Event
    steps: tuple[StepRecord, ...]
    events: Sequence[Event]

    @property
    def attempt(self) -> int:
        """Which attempt comes next."""
        return self.orphan.open.attempt + 1


class Recovery:
    """Finds out what was left in a session, and takes it up. Holds nothing between sessions.

    config: how messages are run that came without a configuration of their own. unknown: which answers are left to processes
    that know their agents.
    """

    def __init__(self, cast: Runtime, driver: Driver, config: RunConfig, unknown: UnknownAgents) -> None:
        self._cast, self._driver, self._config, self._unknown = cast, driver, config, unknown

    async def leftover(self, key: SessionKey) -> UnfinishedWork | None:
        """What a dead process left in the session; None when there is nothing now, or somebody holds it.

        LeftToOthers when only other processes know the agent that was answering.
        """
        session = await self._cast.store.open(key)
        orphan = orphan_of(session, self._driver.lease.holder) if session else None
        if session is None or orphan is None:
            return None
        if session.stop != orphan.invocation_id and self._unknown.leaves_answer(key, orphan.invocation_id, orphan.open):
            raise LeftToOtherProcesses
        visible = await self._cast.store.events(key, invocation_id=orphan.invocation_id)
        asked = message_of_orphan(visible)
        if asked is None:
            # It was taken back between the two looks.
            return None
        everything = await self._cast.store.events(
            key, after=(asked.sequence or 1) - 1, invocation_id=orphan.invocation_id, hidden=True
        )
        message = await message_of_event(self._cast.store, key, asked)
        job = MessageRun(key, message, message.config or self._config)
        job.accept()
        return UnfinishedWork(job, session, orphan, asked, inherited_steps(visible, orphan.open.since), everything)

    async def give_up(self, key: SessionKey) -> None:
        """Gives up the lease of a dead process that left nothing to do: what it answered waits, or has ended."""
        session = await self._cast.store.open(key)
        if session is not None and not session.held and orphan_of(session) is None:
            try:
                await self._cast.store.take(session, self._driver.lease, (), release=True)
            except (SessionBusy, StaleWriter):
                return

    async def resume(self, left: UnfinishedWork) -> Session | None:
        """Runs it again from where its turn began, or ends it; as `Driver.serve`.

        SessionBusy or StaleWriter when somebody else was faster; then nothing was done.
        """
        feed = left.job.invocation.feed
        for event in left.events:
            feed.publish(event)
        end = orphan_end(left.orphan, left.session, self._cast.tree, left.job.config.limits.attempts)
        if end is not None:
            return await self._close(left, end)
        recorder = self._driver.recorder(left.job, left.session, left.orphan.invocation_id, left.attempt)
        await recorder.take([self._beginning(left)])
        return await self._driver.run(left.job, recorder, _plan(left))

    async def _close(self, left: UnfinishedWork, end: End) -> Session:
        recorder = self._driver.recorder(left.job, left.session, left.orphan.invocation_id, left.orphan.open.attempt)
        head, holder = left.session.head, left.orphan.open.agent
        steps = await steps_of(self._cast.store, left.session, left.orphan.invocation_id)
        closing = closing_events(self._cast.issuer, head, left.orphan.invocation_id, holder, end, steps=steps)
        await recorder.take(closing, release=True)
        await recorder.told()
        left.job.invocation.feed.close()
        return recorder.session

    def _beginning(self, left: UnfinishedWork) -> Event:
        """The event that begins the next attempt: it takes back what the last one left of its turn, but for its steps."""
        id_, open_ = left.orphan
        event = empty_event(self._cast.issuer, open_.agent, id_, str(open_.turn))
        rewind = Rewind(from_sequence=open_.since + 1, invocation_id=id_)
        return with_actions(event, rewind=rewind, steps=left.steps)


def _plan(left: UnfinishedWork) -> Plan:
    """What was decided for the message, as it stands in the log."""
    id_, open_ = left.orphan
    selection = left.asked.actions.selection
    assert selection is not None
    continues = Continuation(id_, open_.agent, open_.turn, left.asked.actions.answers)
    told = left.asked.actions.brief or left.asked.content or Content()
    return Plan(left.session, told, (), selection, id_, continues)
