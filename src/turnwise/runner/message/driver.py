"""Drives one message: select, begin, run, hand off, end (behaviour A18).

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

from turnwise.facts.content import CHOICES, Content, DataPart, TextPart, text_in
from turnwise.facts.errors import AgentFailed, LimitReached, RevisionUnavailable, StaleWriter, TurnwiseError
from turnwise.facts.events import Branch, End, ErrorInfo, Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session
from turnwise.facts.tree import AgentTree
from turnwise.matching.language import language_of
from turnwise.ports.context import Suspend
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import Lease
from turnwise.runner.agent_sets import AgentSets, Hold
from turnwise.runner.experiments import Shadows, deciding_policy
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.open_invocations import UnknownAgents
from turnwise.runner.message.planning import Plan, Planner, Refusal
from turnwise.runner.record.events import closing_events, empty_event, error_text, revision_of, session_after, tools_offered_to
from turnwise.runner.record.journal import EMPTY, journal_of
from turnwise.runner.record.recorder import Recorder, append_between_runs
from turnwise.runner.rests import is_outage, with_ends
from turnwise.runner.turn.context import TurnContext, run_turn
from turnwise.runner.turn.run_agent import stop_reason
from turnwise.runner.turn.state import Handoff, InvocationState, Services, record_answer_decision
from turnwise.selection.cascade import Cascade
from turnwise.selection.clarify import choices_of
from turnwise.telemetry.logs import message_context

BEGIN_ATTEMPTS = 5

log = logging.getLogger("turnwise.runner")


class Driver:
    """Answers one message of a session at a time. Keeps no state between messages.

    Args:
        wake_jobs: Called after a background job was stored.
        shadows: Decides as the shadow, after the answers.
    """

    def __init__(
        self,
        services: Services,
        sets: AgentSets,
        hooks: Sequence[Hooks],
        lease: Lease,
        unknown: UnknownAgents,
        wake_jobs: Callable[[], object],
        shadows: Shadows,
    ) -> None:
        self._shadows = shadows
        self._services, self._sets, self._hooks, self.lease, self._wake_jobs = services, sets, hooks, lease, wake_jobs
        self._planner = Planner(services, lease.holder, unknown)

    async def close(self) -> None:
        """Waits for what is stored in the background."""
        await self._shadows.close()
        await self._planner.close()

    async def prepare(self, run: MessageRun) -> None:
        """Runs the guardrails on the message before anything else. See `MessageRun.blocked`."""
        await self._planner.prepare(run)

    async def check_room(self, run: MessageRun) -> None:
        """Checks the limits of the session and the user. Raises SessionFull, StateFull, UserLimitReached."""
        session = await self._services.store.open(run.key, blank=True)
        if session is not None:
            await self._services.allowances.check_message(session, run.message, run.config.limits)

    async def serve(self, run: MessageRun) -> Session | None:
        """Answers the message until its end or a wait.

        Once the message is stored, errors close the run's feed instead of being raised.

        Returns:
            The session after the answer; None when another process took it over. The other process continues the answer, and
            the feed stays open.

        Raises:
            SessionBusy: Another process writes to the session. The message is in the inbox, unless it is to be
                rejected.
            UnfinishedMessage: An older message must be recovered first.
            LeftToOtherProcesses: Only other processes know the agent that the message is for.
            MessageBlocked: A guardrail blocked the message; the refusal is recorded.
            TurnwiseError: Any other problem; nothing was stored.
        """
        with message_context(run.key, is_local=run.context is not None), self._sets.hold() as hold:
            recorder, plan = await self._begin(run, hold)
            if isinstance(plan, Refusal):
                await recorder.release()
                raise run.blocked or AssertionError("A message is refused because it is blocked.")
            run.accept()
            sequence = recorder.session.last_sequence
            try:
                return await self.run(run, recorder, plan, hold)
            finally:
                self._shadows.submit(run.key, sequence, plan.shadow)

    async def run(self, run: MessageRun, recorder: Recorder, plan: Plan, hold: Hold) -> Session | None:
        """Answers a message that has begun, as `serve` does. A continued invocation replays its recorded work, with the
        agents that it began with.
        """
        with message_context(run.key, plan.invocation_id, is_local=run.context is not None):
            return await self._run(run, recorder, plan, hold)

    async def _run(self, run: MessageRun, recorder: Recorder, plan: Plan, hold: Hold) -> Session | None:
        """Answers the stored message. Errors are logged or close the feed; the recorder refuses further writes at the end."""
        run.invocation.id = plan.invocation_id
        problem: BaseException | None = None
        lost = False
        try:
            await self._answer(run, await self._open_invocation(run, recorder, plan, hold), plan)
        except StaleWriter:
            lost = True
            recorder.report_lost()
        except Exception as error:
            if not isinstance(error, TurnwiseError):
                log.exception("The runner failed in invocation %s of session %s.", plan.invocation_id, run.key.id)
            problem = error
            recorder.report_lost()
        except BaseException as error:
            problem = error
            raise
        finally:
            recorder.stop_writing(StaleWriter("The invocation has ended."))
            if recorder.asks_for_jobs:
                self._wake_jobs()
            if recorder.remembers:
                self._services.memory.encode_later(run.key.user)
            await recorder.wait_for_hooks()
            if not lost:
                run.invocation.feed.close(problem)
        return None if lost else recorder.session

    def recorder(self, run: MessageRun, session: Session, invocation_id: str, attempt: int = 1) -> Recorder:
        """Returns a recorder for one attempt at an invocation of that session."""
        feed = run.invocation.feed
        return Recorder(self._services.store, session, self.lease, feed, self._hooks, invocation_id, attempt)

    async def append_between_runs(self, session: Session, events: Sequence[Event]) -> None:
        """Appends to a session that no process holds and this one does not answer in, and releases a dead process's lease.

        Raises:
            SessionBusy: Another process holds the session.
            StaleWriter: The session has changed since it was read.
        """
        empty_inbox = bool(events)
        await append_between_runs(self._services.store, self._hooks, session, self.lease, events, empty_inbox=empty_inbox)

    async def _begin(self, run: MessageRun, hold: Hold) -> tuple[Recorder, Plan | Refusal]:
        """Plans the message and stores it with the lease, in one commit. When the session changed meanwhile, plans again.

        Returns the recorder, and the plan or the refusal that was stored.
        """
        limit = None if run.config.when_busy == "reject" else run.config.limits.queue
        attempts = BEGIN_ATTEMPTS
        while True:
            plan = await self._planner.plan(run, hold.agent_set)
            recorder = self.recorder(run, plan.session, plan.invocation_id)
            try:
                await recorder.begin(
                    run.stored_message, plan.events, queue_limit=limit, new=not run.queued, revision=run.revision
                )
            except StaleWriter:
                # Another writer came between the read and the write: plan again on the current session.
                attempts -= 1
                if not attempts:
                    raise
            else:
                return recorder, plan

    async def _open_invocation(self, run: MessageRun, recorder: Recorder, plan: Plan, hold: Hold) -> InvocationState:
        """Returns the state of the invocation. A continued one gets its journal, tools and the agents that it began with."""
        journal, context, problem = EMPTY, run.stored_message.context, None
        if plan.continues:
            events = await self._services.store.events(run.key, invocation_id=plan.invocation_id)
            tools = await tools_offered_to(self._services.store, run.key, events)
            journal, context = journal_of(events), context.replace(tools=tools)
            try:
                await hold.switch(revision_of(events))
            except RevisionUnavailable as error:
                problem = error
        invocation = InvocationState(
            self._services.runtime(hold.agent_set),
            recorder,
            journal,
            turn=plan.turn,
            invocation_id=plan.invocation_id,
            message=plan.content,
            context=context,
            config=run.config,
        )
        if problem is not None:
            self._report(invocation, plan.holder, problem)
        return invocation

    def _report(self, invocation: InvocationState, author: str, problem: TurnwiseError) -> None:
        """Buffers an event with an error that keeps the invocation from running."""
        event = empty_event(self._services.issuer, author, invocation.invocation_id)
        invocation.buffer(event.replace(error=ErrorInfo(code=problem.code, message=error_text(problem))))
        invocation.failure = problem

    async def _answer(self, run: MessageRun, invocation: InvocationState, plan: Plan) -> None:
        """Runs the agents' turns to the end. Without an agent, stores the clarifying question or the failure instead."""
        if invocation.failure is not None:
            await self._conclude(invocation, plan.holder, _failed_end(invocation.failure))
            return
        if plan.selection.outcome == "clarify":
            invocation.buffer(
                _question(
                    TurnContext(invocation, plan.holder, Branch.of_turn(plan.turn), invocation.message),
                    plan.selection,
                    invocation.runtime.tree,
                )
            )
            await self._conclude(invocation, plan.holder, End(reason="clarify"))
            return
        work = asyncio.create_task(self._turns(invocation, plan.holder, plan.turn, run.probe))
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stop() -> None:
            if not stopped.done():
                stopped.set_result(None)
                work.cancel()

        run.invocation.set_running(plan.invocation_id, stop, invocation.recorder.check_lease)
        invocation.recorder.on_lost(stop)
        if run.invocation.is_cancelled:
            stop()
        late = await self._watch(work, stopped, run.config)
        await self._settle(run, invocation, plan.holder, work, late)

    async def _watch(self, work: "asyncio.Task[End | None]", stopped: asyncio.Future[None], config: RunConfig) -> str:
        """Waits until the turns end. Cancels them after the deadline or a stop, and grants the grace period.

        Returns:
            Why the turns exceeded the deadline; "" when they did not.
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
        self, run: MessageRun, invocation: InvocationState, holder: str, work: "asyncio.Task[End | None]", late: str
    ) -> None:
        """Records how the turns ended."""
        if invocation.recorder.problem:
            work.cancel()
            raise invocation.recorder.problem
        if late:
            end: End | None = End(reason="limit:invocation_seconds", detail=late)
        elif not work.done() or work.cancelled():
            end = End(reason="cancelled")
        elif error := work.exception():
            run.invocation.exception = error.__cause__ if isinstance(error, AgentFailed) and error.__cause__ else error
            end = _failed_end(error)
        else:
            end = work.result()
        if end is not None:
            await self._conclude(invocation, holder, end)
            return
        invocation.buffer_pending(empty_event(self._services.issuer, holder, invocation.invocation_id))
        await invocation.recorder.append(invocation.take_buffered(), release=True)

    async def _turns(self, invocation: InvocationState, holder: str, turn: int, probe: str | None) -> End | None:
        """Runs turn after turn until no agent hands off. Returns the end, or None when the invocation waits.

        Args:
            invocation: The invocation.
            holder: The agent that runs first.
            turn: The number of its turn.
            probe: An agent that passes the message to the next candidate when it fails.
        """
        holders, end = [holder], invocation.stopped or End()
        message = invocation.journal.messages.get(turn, invocation.message)
        while True:
            context = TurnContext(invocation, holders[-1], Branch.of_turn(turn), message)
            try:
                await run_turn(context)
            except Suspend:
                return None
            except TurnwiseError as error:
                if context.card.name != probe or not is_outage(error) or context.emitter.last is not None:
                    raise
                invocation.handoff = await self._next_candidate(invocation, context)
            handoff = invocation.handoff or await self._named_next(invocation, context)
            if handoff is None:
                return end
            reason = stop_reason(holders, handoff.target, invocation.config.limits.transfers)
            if reason is not None:
                end = End(reason=reason, detail=f"{' → '.join([*holders, handoff.target])} was stopped.")
                handoff = Handoff(invocation.runtime.tree.root, handoff.by)
                invocation.stop(end)
            await self._store_handoff(invocation, handoff, Branch.of_turn(turn))
            holders.append(handoff.target)
            turn, message = turn + 1, handoff.brief or invocation.message

    async def _policy(self, invocation: InvocationState) -> Cascade:
        """Returns the policy that decides in the invocation's session."""
        assigned = await self._services.experiments.of(invocation.recorder.session, starts=False)
        return deciding_policy(invocation.runtime.agent_set, assigned).cascade

    async def _named_next(self, invocation: InvocationState, context: TurnContext) -> Handoff | None:
        """Returns the handoff to the agent that the answer names, if the policy follows tags (B7). Records the decision.

        Only the answer of the agent that has the turn counts. Names in nested answers, as in a team, were decided there.
        """
        answer = context.emitter.last
        if answer is None or answer.branch != context.branch or invocation.stopped is not None:
            return None
        agent_set = invocation.runtime.agent_set
        selection = (await self._policy(invocation)).after(
            answer,
            head=invocation.recorder.session.head,
            message=invocation.message,
            context=invocation.context,
            targets=context.transfer_targets,
        )
        if selection is None:
            return None
        record_answer_decision(
            invocation,
            agent_set.stamped(selection),
            empty_event(self._services.issuer, answer.author, invocation.invocation_id, context.branch),
        )
        return None if selection.agent == answer.author else Handoff(selection.agent, answer.author)

    async def _next_candidate(self, invocation: InvocationState, context: TurnContext) -> Handoff:
        """Decides again without the agent that failed its probe. Raises NobodyEligible."""
        failed, agent_set, rests = context.card.name, invocation.runtime.agent_set, self._services.rests.resting()
        selection = await (await self._policy(invocation)).decide(
            head=invocation.recorder.session.head,
            message=invocation.message,
            context=invocation.context,
            resting=frozenset({failed, *rests} - {agent_set.tree.root}),
        )
        decided = agent_set.stamped(with_ends(selection, rests))
        bare = empty_event(self._services.issuer, failed, invocation.invocation_id, context.branch)
        record_answer_decision(invocation, decided, bare)
        return Handoff(selection.agent, failed)

    async def _store_handoff(self, invocation: InvocationState, handoff: Handoff, branch: Branch) -> None:
        """Stores the handoff, on the agent's last event if that is still buffered."""
        invocation.handoff = None
        buffered = invocation.take_buffered()
        if not buffered or buffered[-1].author != handoff.by or buffered[-1].error:
            buffered.append(empty_event(self._services.issuer, handoff.by, invocation.invocation_id, branch))
        buffered[-1] = buffered[-1].with_actions(transfer_to=handoff.target, brief=handoff.brief, stopped=invocation.stopped)
        await invocation.recorder.append(buffered)

    async def _conclude(self, invocation: InvocationState, holder: str, end: End) -> None:
        """Stores the end with the buffered events, and releases the session."""
        buffered = invocation.take_buffered()
        if end.reason.startswith("limit:") and invocation.config.limit_text is not None:
            end = end.replace(detail=text_in(invocation.config.limit_text, language_of(invocation.message.text)))
        if end.reason != "completed":
            head = session_after(invocation.recorder.session, buffered).head
            if any(call.invocation_id == invocation.invocation_id for call in head.calls.values()):
                steps = invocation.steps.values()
                buffered += closing_events(self._services.issuer, head, invocation.invocation_id, holder, end, steps=steps)
        if not buffered:
            author = invocation.recorder.session.head.active_agent or holder
            buffered = [empty_event(self._services.issuer, author, invocation.invocation_id)]
        last = buffered[-1]
        jobs = self._services.memory.job_after(invocation.recorder.session, len(buffered)) if end.reason == "completed" else ()
        buffered[-1] = last.with_actions(end=end, jobs=(*last.actions.jobs, *jobs))
        await invocation.recorder.append(buffered, release=True)


def _failed_end(error: BaseException) -> End:
    """Returns the end that records this error. Raises errors that are no `Exception`, such as a cancellation."""
    if isinstance(error, LimitReached):
        return End(reason=f"limit:{error.which}", detail=error_text(error))
    if isinstance(error, TurnwiseError):
        return End(reason="failed", detail=error_text(error))
    if isinstance(error, Exception):
        # A defect of the runner, not of the agent. The session must not stay claimed.
        log.error("The runner failed.", exc_info=error)
        return End(reason="failed", detail=f"The runner failed: {type(error).__name__}.")
    raise error


def _question(context: TurnContext, selection: Selection, tree: AgentTree) -> Event:
    """Returns the question as text, with the choices as data: a list of {agent, label, description} in display order."""
    verdict = selection.verdicts[-1]
    offered = choices_of(tree, (each.agent for each in verdict.candidates))
    choices: list[JsonValue] = [choice.as_data() for choice in offered]
    text = TextPart(text=verdict.question or selection.reason)
    return context.event(Content(parts=(text, DataPart(name=CHOICES, data=choices))))
