"""One message through: select, begin, run, hand over, end (behaviour A18).

start ─ open head ─ guardrails ─ save blobs ─ select ─┬─ commit: lease, user event with its selection
                                                      │
        ┌─────────────────────────────────────────────┘
        └─ turn 1: agent A ─ event ─ event ─ transfer → turn 2: agent B ─ event ─┬─ commit: last event, end, release
                                                                                 │
                                                              or it waits ───────┘
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.errors import AgentFailed, LimitReached, StaleWriter, TurnwiseError
from turnwise.facts.events import End, Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session
from turnwise.facts.tree import AgentTree
from turnwise.ports.context import Suspend
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import Lease
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.planning import Plan, Planner, Refusal
from turnwise.runner.message.recovery_rules import UnknownAgents
from turnwise.runner.record.events import closing_events, empty_event, error_text, session_after, tools_offered_to, with_actions
from turnwise.runner.record.journal import EMPTY, journal_of
from turnwise.runner.record.recorder import Recorder
from turnwise.runner.turn.context import TurnContext, run_turn
from turnwise.runner.turn.run_agent import stop_reason
from turnwise.runner.turn.state import Handoff, InvocationState, Runtime, decide_on_answer
from turnwise.selection.cascade import Cascade
from turnwise.selection.clarify import choices_of
from turnwise.telemetry.log_context import message_context

BEGIN_ATTEMPTS = 5

log = logging.getLogger("turnwise.runner")


class Driver:
    """Answers one message at a time of a session. Holds nothing between messages.

    wake_jobs: is called when a background job was stored.
    """

    def __init__(
        self,
        cast: Runtime,
        cascade: Cascade,
        hooks: Sequence[Hooks],
        lease: Lease,
        unknown: UnknownAgents,
        wake_jobs: Callable[[], object],
    ) -> None:
        self._cast, self._cascade, self._hooks, self.lease, self._wake_jobs = cast, cascade, hooks, lease, wake_jobs
        self._planner = Planner(cast, cascade, lease.holder, unknown)

    async def prepare(self, job: MessageRun) -> None:
        """Lets the guardrails look at the message before anything else is done for it: see `Job.blocked`."""
        await self._planner.prepare(job)

    async def serve(self, job: MessageRun) -> Session | None:
        """Answers the message to its end or wait, on record and on the job's feed; gives the session as it is then.

        None when the session was lost to another process, which answers on; the feed is open then. SessionBusy when
        somebody else writes to the session: the message is then in the inbox, unless the job is to be rejected. Unfinished
        when an older message is to be recovered first. LeftToOthers when the message is for an agent that only other
        processes know. MessageBlocked when that is on record. Other errors are raised when nothing was stored; once the
        message is stored they close the feed instead.
        """
        with message_context(job.key, is_local=job.context is not None):
            recorder, plan = await self._begin(job)
            if isinstance(plan, Refusal):
                await recorder.leave()
                raise job.blocked or AssertionError("A message is refused because it is blocked.")
            job.accept()
            return await self.run(job, recorder, plan)

    async def run(self, job: MessageRun, recorder: Recorder, plan: Plan) -> Session | None:
        """Answers a message that has begun, as `serve` does. What it did before is looked up if it is taken up again."""
        with message_context(job.key, plan.invocation_id, is_local=job.context is not None):
            return await self._run(job, recorder, plan)

    async def _run(self, job: MessageRun, recorder: Recorder, plan: Plan) -> Session | None:
        job.invocation.id = plan.invocation_id
        problem: BaseException | None = None
        lost = False
        try:
            await self._answer(job, await self._open_floor(job, recorder, plan), plan)
        except StaleWriter:
            lost = True
            recorder.lose()
        except Exception as error:
            if not isinstance(error, TurnwiseError):
                log.exception("The runner failed in invocation %s of session %s.", plan.invocation_id, job.key.id)
            problem = error
            recorder.lose()
        except BaseException as error:
            problem = error
            raise
        finally:
            recorder.shut(StaleWriter("The invocation has ended."))
            if recorder.asks_for_jobs:
                self._wake_jobs()
            await recorder.told()
            if not lost:
                job.invocation.feed.close(problem)
        return None if lost else recorder.session

    def recorder(self, job: MessageRun, session: Session, invocation_id: str, attempt: int = 1) -> Recorder:
        """A recorder for one attempt at an invocation of that session."""
        feed = job.invocation.feed
        return Recorder(self._cast.store, session, self.lease, feed, self._hooks, invocation_id, attempt)

    async def _begin(self, job: MessageRun) -> tuple[Recorder, Plan | Refusal]:
        limit = None if job.config.when_busy == "reject" else job.config.limits.queue
        attempts = BEGIN_ATTEMPTS
        while True:
            plan = await self._planner.plan(job)
            recorder = self.recorder(job, plan.session, plan.invocation_id)
            try:
                await recorder.begin(job.kept, plan.events, queue_limit=limit)
            except StaleWriter:
                # Somebody wrote between our reading and our writing: decide again on what is there now.
                attempts -= 1
                if not attempts:
                    raise
            else:
                return recorder, plan

    async def _open_floor(self, job: MessageRun, recorder: Recorder, plan: Plan) -> InvocationState:
        journal, context = EMPTY, job.kept.context
        if plan.continues:
            events = await self._cast.store.events(job.key, invocation_id=plan.invocation_id)
            tools = await tools_offered_to(self._cast.store, job.key, events)
            journal, context = journal_of(events), context.model_copy(update={"tools": tools})
        return InvocationState(
            self._cast,
            recorder,
            journal,
            turn=plan.turn,
            invocation_id=plan.invocation_id,
            message=plan.content,
            context=context,
            config=job.config,
        )

    async def _answer(self, job: MessageRun, floor: InvocationState, plan: Plan) -> None:
        if plan.selection.outcome == "clarify":
            floor.hold(
                _question(TurnContext(floor, plan.holder, str(plan.turn), floor.message), plan.selection, self._cast.tree)
            )
            await self._conclude(floor, plan.holder, End(reason="clarify"))
            return
        work = asyncio.create_task(self._turns(floor, plan.holder, plan.turn))
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stop() -> None:
            if not stopped.done():
                stopped.set_result(None)
                work.cancel()

        job.invocation.runs(plan.invocation_id, stop)
        floor.recorder.when_lost(stop)
        if job.invocation.is_cancelled:
            stop()
        late = await self._watch(work, stopped, job.config)
        await self._settle(job, floor, plan.holder, work, late)

    async def _watch(self, work: "asyncio.Task[End | None]", stopped: asyncio.Future[None], config: RunConfig) -> str:
        """Waits until the turns are over; an agent that is late, or told to stop, gets a while to do so.

        Gives why it is late, or "".
        """
        seconds = config.deadline_seconds or config.limits.invocation_seconds
        either: set[asyncio.Future[Any]] = {work, stopped}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return ""
        late = not stopped.done()
        if late:
            work.cancel()
        await asyncio.wait({work}, timeout=config.limits.grace_seconds)
        if not work.done():
            work.cancel()
        return f"It took longer than {seconds:g} s." if late else ""

    async def _settle(
        self, job: MessageRun, floor: InvocationState, holder: str, work: "asyncio.Task[End | None]", late: str
    ) -> None:
        """Records how the turns ended."""
        if floor.recorder.problem:
            work.cancel()
            raise floor.recorder.problem
        if late:
            end: End | None = End(reason="limit:invocation_seconds", detail=late)
        elif not work.done() or work.cancelled():
            end = End(reason="cancelled")
        elif error := work.exception():
            job.invocation.exception = error.__cause__ if isinstance(error, AgentFailed) and error.__cause__ else error
            end = _failed_end(error)
        else:
            end = work.result()
        if end is not None:
            await self._conclude(floor, holder, end)
            return
        floor.hold_pending(empty_event(self._cast.issuer, holder, floor.invocation_id))
        await floor.recorder.append(floor.take_held(), release=True)

    async def _turns(self, floor: InvocationState, holder: str, turn: int) -> End | None:
        """Runs turn after turn until nobody hands the floor on; the end, or None when the invocation waits."""
        holders, end = [holder], floor.stopped or End()
        message = floor.journal.messages.get(turn, floor.message)
        while True:
            frame = TurnContext(floor, holders[-1], str(turn), message)
            try:
                await run_turn(frame)
            except Suspend:
                return None
            handover = floor.handover or self._named_next(floor, frame)
            if handover is None:
                return end
            reason = stop_reason(holders, handover.target, floor.config.limits.transfers)
            if reason is not None:
                end = End(reason=reason, detail=f"{' → '.join([*holders, handover.target])} was stopped.")
                handover = Handoff(self._cast.tree.root, handover.by)
                floor.stop(end)
            await self._hand_over(floor, handover, str(turn))
            holders.append(handover.target)
            turn, message = turn + 1, handover.brief or floor.message

    def _named_next(self, floor: InvocationState, frame: TurnContext) -> Handoff | None:
        """The hand-over to the agent that the answer names, if the policy obeys tags (B7). The decision is put on record.

        Only the answer of the agent that holds the floor counts: what is named below it, as in a team, was decided there.
        """
        answer = frame.voice.last
        if answer is None or answer.branch != frame.branch or floor.stopped is not None:
            return None
        selection = self._cascade.after(
            answer,
            head=floor.recorder.session.head,
            message=floor.message,
            context=floor.context,
            targets=frame.transfer_targets,
        )
        if selection is None:
            return None
        decide_on_answer(floor, selection, empty_event(self._cast.issuer, answer.author, floor.invocation_id, frame.branch))
        return None if selection.agent == answer.author else Handoff(selection.agent, answer.author)

    async def _hand_over(self, floor: InvocationState, handover: Handoff, branch: str) -> None:
        """Stores that the floor moves, with the giver's last word if it is still held."""
        floor.handover = None
        held = floor.take_held()
        if not held or held[-1].author != handover.by or held[-1].error:
            held.append(empty_event(self._cast.issuer, handover.by, floor.invocation_id, branch))
        held[-1] = with_actions(held[-1], transfer_to=handover.target, brief=handover.brief, stopped=floor.stopped)
        await floor.recorder.append(held)

    async def _conclude(self, floor: InvocationState, holder: str, end: End) -> None:
        """Stores the end with what is held, and gives up the session."""
        held = floor.take_held()
        if end.reason != "completed":
            head = session_after(floor.recorder.session, held).head
            if any(call.invocation_id == floor.invocation_id for call in head.calls.values()):
                steps = floor.steps.values()
                held += closing_events(self._cast.issuer, head, floor.invocation_id, holder, end, steps=steps)
        if not held:
            author = floor.recorder.session.head.active_agent or holder
            held = [empty_event(self._cast.issuer, author, floor.invocation_id)]
        held[-1] = with_actions(held[-1], end=end)
        await floor.recorder.append(held, release=True)


def _failed_end(error: BaseException) -> End:
    if isinstance(error, LimitReached):
        return End(reason=f"limit:{error.which}", detail=error_text(error))
    if isinstance(error, TurnwiseError):
        return End(reason="failed", detail=error_text(error))
    if isinstance(error, Exception):
        # Ours, not the agent's. The session must not stay claimed for it.
        log.error("The runner failed.", exc_info=error)
        return End(reason="failed", detail=f"The runner failed: {type(error).__name__}.")
    raise error


def _question(frame: TurnContext, selection: Selection, tree: AgentTree) -> Event:
    """The question as text, and what may be chosen as data: a list of {agent, label, description}, in the order shown."""
    verdict = selection.verdicts[-1]
    offered = choices_of(tree, (each.agent for each in verdict.candidates))
    choices: list[JsonValue] = [choice.as_data() for choice in offered]
    text = TextPart(text=verdict.question or selection.reason)
    return frame.event(Content(parts=(text, DataPart(name="choices", data=choices))))
