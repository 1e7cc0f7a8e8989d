"""The context of one agent run: what the agent can read and do, and the loop that records its events.

Nested agent runs inherit a part of it: the assignment and the message context.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.content import Content, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed, LimitReached, ToolFailed, TransferRefused, TurnwiseError
from turnwise.facts.events import Await, Branch, ErrorInfo, Event, StepRecord
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.assignment import EVERYTHING, AssignedTask, Assignment, Scope
from turnwise.ports.context import Outcome, Show, Stream, Suspend
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.runner.record.journal import DECISION, current_scope
from turnwise.runner.turn.agent_checks import Unawaited, awaited, check_storable, named, no_attribute
from turnwise.runner.turn.emitter import EventEmitter, Steps, open_stream
from turnwise.runner.turn.pending_writes import PendingWrites
from turnwise.runner.turn.run_agent import passes_twice, run_agent
from turnwise.runner.turn.state import Handoff, InvocationState
from turnwise.runner.turn.views import ArtifactsView, HistoryView, MemoryView, StateView
from turnwise.selection.verdicts import run_selector

T = TypeVar("T")

_DECIDED = {"selector", "outcome", "agent", "method", "confidence", "reason"}


class TurnContext:
    """The context of one agent run on one branch. Implements `AgentContext`.

    A resumed invocation runs its agents from the beginning, each with a new context.
    """

    def __init__(
        self,
        invocation: InvocationState,
        agent: str,
        branch: Branch,
        message: Content,
        assignment: Assignment | None = None,
        scope: Scope = EVERYTHING,
        context: MessageContext | None = None,
    ) -> None:
        self.card = invocation.runtime.tree.card(agent)
        self.session = invocation.key
        self.invocation_id = invocation.invocation_id
        self.message, self.message_context, self.config = message, context or invocation.context, invocation.config
        self.notice = invocation.notice
        self.branch = branch
        self.assignment, self.scope = assignment, scope
        self.escalated = False
        self.waits = False
        self.unawaited = Unawaited()
        self._invocation = invocation
        self._calls = 0
        self._selections = 0
        writes = PendingWrites(branch, invocation.replay)
        self.emitter = EventEmitter(invocation, agent, branch, scope.labels, writes)
        self._steps = Steps(invocation, branch, self.emitter, writes)
        self.recorded = self._steps.keys
        self.history = HistoryView(invocation, agent, branch, scope.sees)
        self.state = StateView(invocation, writes)
        limits = invocation.config.limits
        self.artifacts = ArtifactsView(
            invocation.runtime.artifacts, invocation.key, limits, writes, self._allows, self.unawaited
        )
        roles = self.message_context.roles
        self.memory = MemoryView(invocation, self.card, branch, self.emitter, self._steps, writes, roles, self.unawaited)

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("The agent's context")

    @property
    def tree(self) -> AgentTree:
        return self._invocation.runtime.tree

    @property
    def model_calls(self) -> int:
        return self.emitter.model_calls

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        if self._invocation.stopped is not None or self.branch.is_private or self.assignment is not None:
            return ()
        targets = self._invocation.runtime.tree.transfer_targets(self.card.name)
        return tuple(t for t in targets if self._reachable(t))

    @property
    def transfer_candidates(self) -> tuple[str, ...]:
        if self._invocation.stopped is not None or self.branch.is_private or self.assignment is not None:
            return ()
        tree, roles = self._invocation.runtime.tree, self.message_context.roles
        return tuple(t for t in tree.transfer_targets(self.card.name, disabled=True) if tree.permits(t, roles))

    @named("context.event")
    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        return self.emitter.event(content, **actions)

    @awaited("context.say")
    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        return await self.emitter.say(self.event(content).replace(scope=(*self.scope.labels, *scope)))

    @named("context.stream")
    def stream(self) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.event(), self._record_yielded)

    @awaited("context.ask")
    async def ask(
        self,
        question: str | Content,
        *,
        tool: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        offered: bool = False,
    ) -> Content:
        """Asks the user, or the party that offered the tool; returns the recorded reply, or suspends the run until it comes."""
        recorded = self._invocation.replay.next_question(current_scope(self.branch))
        if recorded is not None:
            reply = self._invocation.journal.replies.get(recorded.id)
            self.emitter.reach_recorded()
            if reply is not None:
                return reply
            await self.emitter.state_wait(recorded)
            raise Suspend
        wait = self._wait(
            "tool_result" if tool else "reply", self._invocation.runtime.issuer.new_id("call" if tool else "wait")
        )
        content = text_content(question) if isinstance(question, str) else question
        if tool is not None:
            # The name alone is not enough: a caller could offer a tool whose result another party gives, such as an approval.
            if offered and all(each.name != tool for each in self.message_context.tools):
                raise AgentFailed(
                    f"The caller offered agent {self.card.name!r} no tool {tool!r}.",
                    fix="Look for it in context.message_context.tools before you call it.",
                )
            call = ToolCallPart(call_id=wait.id, tool=tool, arguments=arguments or {}, offered=offered)
            content = content.with_parts((*content.parts, call))
        asked = await self.emitter.say(self.event(content, awaits=wait), buffer=True)
        if asked.actions.awaits is None:
            what = f"call of {tool!r} by" if tool else "question of"
            by = next(each.guardrail for each in asked.actions.guarded if each.action == "block")
            raise AgentFailed(f"The {what} {self.card.name!r} was blocked by {by!r}.")
        raise Suspend

    @awaited("context.results")
    async def results(self, *calls: str) -> tuple[ToolResultPart, ...]:
        """Returns the results of these recorded calls, in order. Suspends the run until all are there."""
        stated, replies = self._invocation.journal.waits, self._invocation.journal.replies
        for call in calls:
            if self._invocation.replay.skip_to_wait(current_scope(self.branch), call):
                self.emitter.reach_recorded()  # the writes before it are stored with the wait
        open_ = [call for call in calls if call not in replies]
        for call in open_:
            await self.emitter.state_wait(stated.get(call) or self._wait("tool_result", call))
        if open_:
            raise Suspend
        return tuple(next(r for r in replies[call].tool_results if r.call_id == call) for call in calls)

    @awaited("context.transfer")
    async def transfer(self, agent: str, *, message: str | Content | None = None) -> None:
        """Hands the conversation to another agent after this turn. Raises TransferRefused."""
        targets = self.transfer_targets
        if agent not in targets:
            known = agent in self._invocation.runtime.tree
            problem = "the tree does not permit it" if known else "no agent has that name"
            if agent in self.transfer_candidates:
                problem = "it is not available now"
            shown = repr(agent) if known else await self.emitter.safe_name(agent)
            raise TransferRefused(f"{self.card.name!r} cannot hand over to {shown}: {problem}.", allowed=targets)
        brief = text_content(message, "user") if isinstance(message, str) else message
        if brief is not None:
            check_storable(brief, self.card.name)
        await self._invocation.hand_off(Handoff(agent, self.card.name, brief), self.event())

    @awaited("context.call")
    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        """Runs another agent privately and returns its answer, which readers of the conversation do not see."""
        if segment is None:
            self._calls += 1
            segment = str(self._calls)
        content = text_content(message, "user") if isinstance(message, str) else message
        outcome = await self._call_privately(agent, content, segment)
        return outcome.event.content if outcome.event and outcome.event.content else Content()

    @awaited("context.delegate")
    async def delegate(
        self,
        child: str,
        *,
        segment: str,
        message: Content | None = None,
        assignment: Assignment | None = None,
        followed: bool = False,
        private: bool = False,
    ) -> Outcome:
        """Runs a child on a branch of this one, as part of this answer, or privately. A finished child is not run again."""
        if private:
            return await self._call_privately(child, message or self.message, segment)
        branch = self.branch.child(segment)
        if branch not in self._invocation.journal.finished and not self._reachable(child):
            return Outcome()
        scope = assignment.scope if assignment else self.scope
        part = assignment or nested_assignment(self.assignment)
        outcome = await self._run_nested(child, branch, message or self.message, part, scope)
        if not followed or part is None or part.is_over:
            await self._invocation.flush()
        self.emitter.last = outcome.event or self.emitter.last
        return outcome

    @awaited("context.select")
    async def select(
        self,
        selector: Selector,
        *,
        among: tuple[str, ...],
        answer: Event | None = None,
        tasks: Mapping[str, int] | None = None,
        lead: str | None = None,
    ) -> Verdict:
        """Returns the verdict of a selector among these agents. It is recorded, so a resumed run gets the same one."""
        self._selections += 1
        key = f"{DECISION}{self.branch}:select#{self._selections}"
        if key in self._invocation.journal.steps:
            return Verdict.model_validate(self._invocation.journal.steps[key].value, strict=False)
        place = f"{self.card.name}/{selector.name}"
        tree = self._invocation.runtime.tree
        request = SelectionRequest(
            message=self.message,
            tree=tree,
            head=self._invocation.recorder.session.head,
            eligible=tuple(name for name in among if name in tree and self._reachable(name)),
            context=self.message_context,
            occasion="flow" if tasks is not None else "message" if answer is None else "answer",
            answer=answer,
            positions={selector.name: self._invocation.head_positions.get(place, 0)},
            tasks=tasks or {},
            lead=lead,
        )
        verdict = await run_selector(selector, request, selector.name)
        verdict = await self._invocation.guardrails.verdict(verdict, self.card.name)
        if self._invocation.has_undelivered_decision:
            self._invocation.buffer(self.event())
        positions = {} if verdict.position is None else {place: verdict.position}
        step = StepRecord(key=key, value=verdict_value(verdict))
        decision = self._invocation.runtime.agent_set.stamped(decision_from_verdict(verdict, request, lead or among[0]))
        self._invocation.record_decision(decision, positions, step)
        return verdict

    @awaited("context.escalate")
    async def escalate(self) -> None:
        self.escalated = True

    @overload
    async def step(self, key: str, work: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, key: str, work: Callable[[], T]) -> T: ...
    @awaited("context.step")  # type: ignore[misc]
    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        return await self._steps.step(key, work)

    @awaited("context.once")
    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        return await self._steps.once(key, make)

    async def _record_yielded(self, event: Event) -> None:
        """Records an event that the agent yields. Partial events are only shown; handoffs and ends take effect after the
        run.
        """
        if event.partial:
            await self.emitter.show(event)
            return
        actions = event.actions
        if actions.end is not None:
            await self.unawaited.check(self.card.name)  # before the event is recorded
        if actions.transfer_to is not None:
            await self._transfer_or_report(actions.transfer_to, actions.brief)
        self.escalated = self.escalated or actions.escalate
        stored = await self.emitter.say_permitted(event.with_actions(steps=()))
        awaits = stored.actions.awaits
        self.waits = self.waits or (awaits is not None and awaits.id not in self._invocation.journal.replies)

    async def _run_agent(self) -> None:
        """Runs the agent, records its events, then buffers the writes that no event holds yet."""
        events, closes = self._invocation.runtime.agents[self.card.name].run(self), True
        try:
            async for event in events:
                await self._record_yielded(event)
        except Suspend:
            self.emitter.buffer_writes()
            raise
        except GeneratorExit:
            closes = False  # a generator that raised this can no longer be closed
            raise
        finally:
            if closes and isinstance(events, AsyncGenerator):
                await events.aclose()
        await self.unawaited.check(self.card.name)
        self.emitter.buffer_writes(escalate=self.escalated)
        if self.waits:
            raise Suspend

    async def _transfer_or_report(self, target: str, brief: Content | None) -> None:
        try:
            await self.transfer(target, message=brief)
        except TransferRefused as refused:
            info = ErrorInfo(code=refused.code, message=str(refused))
            await self._invocation.emit(self.event().replace(error=info))

    async def _call_privately(self, agent: str, message: Content, segment: str) -> Outcome:
        """Runs an agent on a private branch. Raises LimitReached when calls nest too deep, AgentFailed for an unknown agent."""
        if self.branch.call_depth >= self.config.limits.call_depth:
            raise LimitReached("call_depth", f"Agents called each other {self.config.limits.call_depth} levels deep.")
        if agent not in self._invocation.runtime.tree or not self._reachable(agent):
            raise AgentFailed(f"{self.card.name!r} called {agent!r}, which does not exist or is not allowed here.")
        branch = self.branch.private_call(agent, segment)
        outcome = await self._run_nested(agent, branch, message, None, self.scope)
        await self._invocation.flush()
        return outcome

    async def _run_nested(
        self, agent: str, branch: Branch, message: Content, assignment: Assignment | None, scope: Scope
    ) -> Outcome:
        """Runs an agent to its end on this branch and returns its outcome. A finished run returns its recorded outcome."""
        if branch in self._invocation.journal.finished or (assignment is not None and assignment.is_over):
            self._invocation.replay.reach_finished(branch)
            outcome = self._invocation.journal.outcome(branch)
            self.emitter.model_calls += outcome.model_calls
            return outcome
        known = nested_context(self.message_context, branch, assignment)
        nested = TurnContext(self._invocation, agent, branch, message, assignment, scope, known)
        handoff_before = self._invocation.handoff
        try:
            await run_turn(nested)
        finally:
            self.emitter.model_calls += nested.model_calls  # also after a failure
        if self._invocation.handoff is handoff_before:
            self._invocation.finish_branch(branch)  # an agent that transferred must transfer again on resume
        last = nested.emitter.last
        has_moved = self._invocation.handoff is not None
        text, next_ = (last.text, last.actions.next) if last else ("", None)
        return Outcome(text, nested.escalated, has_moved, next_, last, nested.model_calls)

    def _wait(self, kind: Literal["reply", "tool_result"], id_: str) -> Await:
        expires_at = self._invocation.runtime.issuer.now() + timedelta(seconds=self.config.limits.wait_seconds)
        return Await(id=id_, kind=kind, expires_at=expires_at)

    async def _allows(self, name: str) -> bool:
        return await self._invocation.guardrails.allows(name, self.card.name)

    def _reachable(self, agent: str) -> bool:
        return self._invocation.runtime.tree.reachable(agent, self.message_context.roles)


async def run_turn(context: TurnContext) -> None:
    """Runs the agent of that context to its end and records its events. Raises as `run_agent`.

    When nested agents fail, only the innermost one gets the error event.
    """
    invocation = context._invocation
    rests, before = invocation.runtime.rests, invocation.failure
    try:
        with invocation.unrecorded.track(context.emitter.buffer_writes):
            await run_agent(context.card, context._run_agent, context.emitter.report)
    except Suspend:
        await rests.succeeded(context.card.name)
        raise
    except TurnwiseError as error:
        # Of nested agents, the innermost one failed.
        if not passes_twice(error, run_turn) and context.card.name != context.tree.root and error is not before:
            await rests.failed(context.card.name, context.session.user, error)
        raise
    await rests.succeeded(context.card.name)


class NestedAssignment:
    """A read-only view of the parent agent's assignment. Implements `ports.assignment.Assignment`.

    A nested agent can read the tasks but not end them: the parent's last answer is their result.
    """

    is_over = False
    instructions = ""
    tools: Sequence[Any] = ()

    def __init__(self, whole: Assignment) -> None:
        self._whole = whole

    @property
    def by(self) -> str:
        return self._whole.by

    @property
    def giver(self) -> str | None:
        return self._whole.giver

    @property
    def request(self) -> Content:
        return self._whole.request

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        return self._whole.tasks

    @property
    def scope(self) -> Scope:
        return self._whole.scope

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        self._refuse()

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        self._refuse()

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ToolFailed("The task belongs to the agent that runs this one.", fix="Answer; that agent ends the task.")


def nested_assignment(assignment: Assignment | None) -> Assignment | None:
    """Returns the read-only view of an assignment that a nested run gets."""
    return assignment if assignment is None or isinstance(assignment, NestedAssignment) else NestedAssignment(assignment)


def nested_context(context: MessageContext, branch: Branch, assignment: Assignment | None) -> MessageContext:
    """Returns the message context that a run on that branch inherits.

    The caller's tools are dropped for private calls and for flow tasks: only agents that answer the caller may use them.
    """
    if not context.tools or not (branch.is_private or (assignment is not None and assignment.tools)):
        return context
    return context.replace(tools=())


def verdict_value(verdict: Verdict) -> JsonValue:
    """Returns the fields of the verdict that a resumed run needs, as the value of a step."""
    return verdict.model_dump(mode="json", include=_DECIDED)


def decision_from_verdict(verdict: Verdict, request: SelectionRequest, lead: str) -> Selection:
    """Returns the verdict as a Selection. Selects `lead` when the verdict chose no agent."""
    return Selection(
        agent=verdict.agent or lead,
        method=verdict.method or verdict.selector,
        confidence=verdict.confidence,
        reason=verdict.reason,
        occasion=request.occasion,
        verdicts=(verdict,),
        policy=verdict.selector,
        tree_version=request.tree.version,
    )
