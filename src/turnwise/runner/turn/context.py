"""One agent's run: the context it gets, and the loop that takes its events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.content import Content, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed, LimitReached, TransferRefused
from turnwise.facts.events import Await, ErrorInfo, Event, StepRecord, segment_of
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.assignment import EVERYTHING, Assignment, Scope
from turnwise.ports.context import Outcome, Show, Stream, Suspend
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.runner.record.journal import DECISION, current_scope
from turnwise.runner.turn.answer_limits import check_storable
from turnwise.runner.turn.emitter import EventEmitter, open_stream
from turnwise.runner.turn.misuse import Unawaited, awaited, named, no_attribute
from turnwise.runner.turn.nested import decision_from_verdict, nested_assignment, nested_context, verdict_value
from turnwise.runner.turn.pending_writes import PendingWrites
from turnwise.runner.turn.run_agent import run_agent
from turnwise.runner.turn.state import Handoff, InvocationState
from turnwise.runner.turn.steps import Steps
from turnwise.runner.turn.views import ArtifactsView, HistoryView, StateView
from turnwise.selection.verdicts import run_selector

T = TypeVar("T")


class TurnContext:
    """The context of one agent run on one branch (implements `AgentContext`). When an invocation is taken up again, the run
    begins anew.
    """

    def __init__(
        self,
        floor: InvocationState,
        agent: str,
        branch: str,
        message: Content,
        assignment: Assignment | None = None,
        scope: Scope = EVERYTHING,
        context: MessageContext | None = None,
    ) -> None:
        self.card = floor.cast.tree.card(agent)
        self.session = floor.key
        self.invocation_id = floor.invocation_id
        self.message, self.message_context, self.config = message, context or floor.context, floor.config
        self.notice = floor.notice
        self.branch = branch
        self.assignment, self.scope = assignment, scope
        self.escalated = False
        self.waits = False
        self.unawaited = Unawaited()
        self._floor = floor
        self._calls = 0
        self._selections = 0
        writes = PendingWrites(branch, floor.replay)
        self.voice = EventEmitter(floor, agent, branch, scope.labels, writes)
        self._steps = Steps(floor, branch, self.voice, writes)
        self.recorded = self._steps.keys
        self.history = HistoryView(floor, agent, branch, scope.sees)
        self.state = StateView(floor, writes)
        limits = floor.config.limits
        self.artifacts = ArtifactsView(floor.cast.artifacts, floor.key, limits, writes, self._allows, self.unawaited)

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("The agent's context")

    @property
    def tree(self) -> AgentTree:
        return self._floor.cast.tree

    @property
    def model_calls(self) -> int:
        return self.voice.model_calls

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        if self._floor.stopped is not None or "/>" in self.branch or self.assignment is not None:
            return ()
        targets = self._floor.cast.tree.transfer_targets(self.card.name)
        return tuple(t for t in targets if self._reachable(t))

    @named("context.event")
    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        return self.voice.event(content, **actions)

    @awaited("context.say")
    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        return await self.voice.say(self.event(content).model_copy(update={"scope": (*self.scope.labels, *scope)}))

    @named("context.stream")
    def stream(self) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.event(), self._take)

    @awaited("context.ask")
    async def ask(
        self,
        question: str | Content,
        *,
        tool: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        offered: bool = False,
    ) -> Content:
        recorded = self._floor.replay.next_question(current_scope(self.branch))
        if recorded is not None:
            reply = self._floor.journal.replies.get(recorded.id)
            self.voice.come_to()
            if reply is not None:
                return reply
            await self.voice.wait(recorded)
            raise Suspend
        wait = self._wait("tool_result" if tool else "reply", self._floor.cast.issuer.new_id("call" if tool else "wait"))
        content = text_content(question) if isinstance(question, str) else question
        if tool is not None:
            # Never by the name alone: a caller could offer what somebody else is to give, such as leave.
            if offered and all(each.name != tool for each in self.message_context.tools):
                raise AgentFailed(
                    f"The caller offered agent {self.card.name!r} no tool {tool!r}.",
                    fix="Look for it in context.message_context.tools before you call it.",
                )
            call = ToolCallPart(call_id=wait.id, tool=tool, arguments=arguments or {}, offered=offered)
            content = content.model_copy(update={"parts": (*content.parts, call)})
        asked = await self.voice.say(self.event(content, awaits=wait), hold=True)
        if asked.actions.awaits is None:
            what = f"call of {tool!r} by" if tool else "question of"
            by = next(each.guardrail for each in asked.actions.guarded if each.action == "block")
            raise AgentFailed(f"The {what} {self.card.name!r} was blocked by {by!r}.")
        raise Suspend

    @awaited("context.results")
    async def results(self, *calls: str) -> tuple[ToolResultPart, ...]:
        stated, replies = self._floor.journal.waits, self._floor.journal.replies
        for call in calls:
            if self._floor.replay.pass_wait(current_scope(self.branch), call):
                self.voice.come_to()  # what was written before is stored with the wait
        open_ = [call for call in calls if call not in replies]
        for call in open_:
            await self.voice.wait(stated.get(call) or self._wait("tool_result", call))
        if open_:
            raise Suspend
        return tuple(next(r for r in replies[call].tool_results if r.call_id == call) for call in calls)

    @awaited("context.transfer")
    async def transfer(self, agent: str, *, message: str | Content | None = None) -> None:
        targets = self.transfer_targets
        if agent not in targets:
            known = agent in self._floor.cast.tree
            problem = "the tree does not permit it" if known else "no agent has that name"
            shown = repr(agent) if known else await self.voice.unknown(agent)
            raise TransferRefused(f"{self.card.name!r} cannot hand over to {shown}: {problem}.", allowed=targets)
        brief = text_content(message, "user") if isinstance(message, str) else message
        if brief is not None:
            check_storable(brief, self.card.name)
        await self._floor.hand_over(Handoff(agent, self.card.name, brief), self.event())

    @awaited("context.call")
    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        if segment is None:
            self._calls += 1
            segment = str(self._calls)
        content = text_content(message, "user") if isinstance(message, str) else message
        outcome = await self._ask_in_private(agent, content, segment)
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
        if private:
            return await self._ask_in_private(child, message or self.message, segment)
        branch = f"{self.branch}/{segment}"
        if branch not in self._floor.journal.finished and not self._reachable(child):
            return Outcome()
        scope = assignment.scope if assignment else self.scope
        part = assignment or nested_assignment(self.assignment)
        outcome = await self._run_below(child, branch, message or self.message, part, scope)
        if not followed or part is None or part.is_over:
            await self._floor.flush()
        self.voice.last = outcome.event or self.voice.last
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
        self._selections += 1
        key = f"{DECISION}{self.branch}:select#{self._selections}"
        if key in self._floor.journal.steps:
            return Verdict.model_validate(self._floor.journal.steps[key].value, strict=False)
        place = f"{self.card.name}/{selector.name}"
        tree = self._floor.cast.tree
        request = SelectionRequest(
            message=self.message,
            tree=tree,
            head=self._floor.recorder.session.head,
            eligible=tuple(name for name in among if name in tree and self._reachable(name)),
            context=self.message_context,
            occasion="flow" if tasks is not None else "message" if answer is None else "answer",
            answer=answer,
            positions={selector.name: self._floor.head_positions.get(place, 0)},
            tasks=tasks or {},
            lead=lead,
        )
        verdict = await run_selector(selector, request, selector.name)
        if self._floor.has_undelivered_decision:
            self._floor.hold(self.event())
        positions = {} if verdict.position is None else {place: verdict.position}
        step = StepRecord(key=key, value=verdict_value(verdict))
        self._floor.decided(decision_from_verdict(verdict, request, lead or among[0]), positions, step)
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

    async def _take(self, event: Event) -> None:
        """Records an event that the agent yields: partial ones are only shown, hand-overs and ends wait for its end."""
        if event.partial:
            await self.voice.show(event)
            return
        actions = event.actions
        if actions.end is not None:
            await self.unawaited.check(self.card.name)  # before what it gave instead is said
        if actions.transfer_to is not None:
            await self._transfer_or_report(actions.transfer_to, actions.brief)
        self.escalated = self.escalated or actions.escalate
        stored = await self.voice.say_own(event.model_copy(update={"actions": actions.model_copy(update={"steps": ()})}))
        awaits = stored.actions.awaits
        self.waits = self.waits or (awaits is not None and awaits.id not in self._floor.journal.replies)

    async def _play(self) -> None:
        """Runs the agent and takes its events; then what it left unrecorded is put behind its last word."""
        events, closes = self._floor.cast.agents[self.card.name].run(self), True
        try:
            async for event in events:
                await self._take(event)
        except Suspend:
            self.voice.hold_leftovers()
            raise
        except GeneratorExit:
            closes = False  # a generator that raises this cannot be closed any more
            raise
        finally:
            if closes and isinstance(events, AsyncGenerator):
                await events.aclose()
        await self.unawaited.check(self.card.name)
        self.voice.hold_leftovers(escalate=self.escalated)
        if self.waits:
            raise Suspend

    async def _transfer_or_report(self, target: str, brief: Content | None) -> None:
        try:
            await self.transfer(target, message=brief)
        except TransferRefused as refused:
            info = ErrorInfo(code=refused.code, message=str(refused))
            await self._floor.emit(self.event().model_copy(update={"error": info}))

    async def _ask_in_private(self, agent: str, message: Content, segment: str) -> Outcome:
        if self.branch.count("/>") >= self.config.limits.call_depth:
            raise LimitReached("call_depth", f"Agents called each other {self.config.limits.call_depth} levels deep.")
        if agent not in self._floor.cast.tree or not self._reachable(agent):
            raise AgentFailed(f"{self.card.name!r} called {agent!r}, which does not exist or is not allowed here.")
        branch = f"{self.branch}/>{segment_of(agent)}#{segment_of(segment)}"
        outcome = await self._run_below(agent, branch, message, None, self.scope)
        await self._floor.flush()
        return outcome

    async def _run_below(
        self, agent: str, branch: str, message: Content, assignment: Assignment | None, scope: Scope
    ) -> Outcome:
        if branch in self._floor.journal.finished or (assignment is not None and assignment.is_over):
            self._floor.replay.come_to(branch)
            outcome = self._floor.journal.outcome(branch)
            self.voice.model_calls += outcome.model_calls
            return outcome
        known = nested_context(self.message_context, branch, assignment)
        below, given = TurnContext(self._floor, agent, branch, message, assignment, scope, known), self._floor.handover
        try:
            await run_turn(below)
        finally:
            self.voice.model_calls += below.model_calls  # those of a run that failed, too
        if self._floor.handover is given:
            self._floor.finish_branch(branch)  # who handed over does so again when the turn is taken up again
        last = below.voice.last
        moved = self._floor.handover is not None
        text, next_ = (last.text, last.actions.next) if last else ("", None)
        return Outcome(text, below.escalated, moved, next_, last, below.model_calls)

    def _wait(self, kind: Literal["reply", "tool_result"], id_: str) -> Await:
        expires_at = self._floor.cast.issuer.now() + timedelta(seconds=self.config.limits.wait_seconds)
        return Await(id=id_, kind=kind, expires_at=expires_at)

    async def _allows(self, name: str) -> bool:
        return await self._floor.guarding.allows(name, self.card.name)

    def _reachable(self, agent: str) -> bool:
        return self._floor.cast.tree.reachable(agent, self.message_context.roles)


async def run_turn(frame: TurnContext) -> None:
    """Runs the agent to its end and records what it emits; raises as `run_agent`.

    The innermost failing agent gets the error event.
    """
    with frame._floor.unsaid.of(frame.voice.hold_leftovers):
        await run_agent(frame.card, frame._play, frame.voice.report)
