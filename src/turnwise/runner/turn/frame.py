"""One agent's run: the context it gets, and the loop that takes its events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Literal, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.content import Content, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed, LimitReached, TransferRefused, TurnwiseError
from turnwise.facts.events import Actions, Await, ErrorInfo, Event, StepRecord, segment_of
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.assignment import EVERYTHING, Assignment, Scope
from turnwise.ports.context import Outcome, Show, Stream, Suspend
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.runner.record.closing import bare_event, told
from turnwise.runner.record.journal import DECISION, answers, model_calls
from turnwise.runner.record.spots import Spot, spot_of
from turnwise.runner.turn.deciding import decided, decision_of
from turnwise.runner.turn.floor import Floor, Handover, check_storable
from turnwise.runner.turn.parts import part_of
from turnwise.runner.turn.performing import performed
from turnwise.runner.turn.stepping import Steps, Voice
from turnwise.runner.turn.streaming import PieceFilter, open_stream
from turnwise.runner.turn.views import ArtifactsView, HistoryView, StateView
from turnwise.runner.turn.writes import Writes

T = TypeVar("T")


class Frame:
    """The context of one agent run on one branch (implements `AgentContext`).

    When an invocation is taken up again, the run begins anew: as long as the replay has events of it, what it emits is
    already in the log and is not emitted again.
    """

    def __init__(
        self,
        floor: Floor,
        agent: str,
        branch: str,
        message: Content,
        assignment: Assignment | None = None,
        scope: Scope = EVERYTHING,
    ) -> None:
        self.card = floor.cast.tree.card(agent)
        self.session = floor.key
        self.invocation_id = floor.invocation_id
        self.message, self.message_context, self.config = message, floor.context, floor.config
        self.notice = floor.notice
        self.branch = branch
        self.assignment, self.scope = assignment, scope
        self.last: Event | None = None
        self.escalated = False
        self.waits = False
        self.model_calls = 0
        self._floor = floor
        self._stated: set[str] = set()
        self._replay = floor.replay
        self._writes = Writes(branch, floor.replay)
        self._calls = 0
        self._selections = 0
        self._pieces = PieceFilter()
        voice = Voice(
            self.event, lambda: self._replay.leave(spot_of(branch)), self._emit_own, self._emit, self._find, self._show
        )
        self._steps = Steps(floor, branch, voice, self._writes)
        self.recorded = self._steps.keys
        self.history = HistoryView(floor, agent, branch, scope.sees)
        self.state = StateView(floor, self._writes)
        self.artifacts = ArtifactsView(floor.cast.artifacts, floor.key, floor.config.limits, self._writes)

    @property
    def tree(self) -> AgentTree:
        return self._floor.cast.tree

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        if self._floor.stopped is not None or "/>" in self.branch or self.assignment is not None:
            return ()
        targets = self._floor.cast.tree.transfer_targets(self.card.name)
        return tuple(t for t in targets if self._reachable(t))

    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        return Event(
            id=self._floor.ids.issue(),
            author=self.card.name,
            invocation_id=self.invocation_id,
            created_at=self._floor.cast.issuer.now(),
            content=text_content(content) if isinstance(content, str) else content,
            branch=self.branch,
            scope=self.scope.labels,
            actions=Actions(**actions),
        )

    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        return await self._emit(self.event(content).model_copy(update={"scope": (*self.scope.labels, *scope)}))

    def stream(self) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.event(), self._take)

    async def ask(
        self, question: str | Content, *, tool: str | None = None, arguments: dict[str, JsonValue] | None = None
    ) -> Content:
        recorded = self._replay.next_question(spot_of(self.branch))
        if recorded is not None:
            reply = self._floor.journal.replies.get(recorded.id)
            self._forget()
            if reply is not None:
                return reply
            await self._wait_on(recorded)
            raise Suspend
        wait = self._wait("tool_result" if tool else "reply", self._floor.cast.issuer.new_id("call" if tool else "wait"))
        content = text_content(question) if isinstance(question, str) else question
        if tool is not None:
            call = ToolCallPart(call_id=wait.id, tool=tool, arguments=arguments or {})
            content = content.model_copy(update={"parts": (*content.parts, call)})
        asked = await self._emit(self.event(content, awaits=wait), hold=True)
        if asked.actions.awaits is None:
            what = f"call of {tool!r} by" if tool else "question of"
            by = next(each.guardrail for each in asked.actions.guarded if each.action == "block")
            raise AgentFailed(f"The {what} {self.card.name!r} was blocked by {by!r}.")
        raise Suspend

    async def results(self, *calls: str) -> tuple[ToolResultPart, ...]:
        stated, replies = self._floor.journal.waits, self._floor.journal.replies
        for call in calls:
            if self._replay.pass_wait(spot_of(self.branch), call):
                self._forget()  # it was stored with the wait
        open_ = [call for call in calls if call not in replies]
        for call in open_:
            if call not in self._stated:
                await self._wait_on(stated.get(call) or self._wait("tool_result", call))
        if open_:
            raise Suspend
        return tuple(next(r for r in replies[call].tool_results if r.call_id == call) for call in calls)

    async def transfer(self, agent: str, *, message: str | Content | None = None) -> None:
        targets = self.transfer_targets
        if agent not in targets:
            known = agent in self._floor.cast.tree
            problem = "the tree does not permit it" if known else "no agent has that name"
            shown = repr(agent) if known else await self._unknown(agent)
            raise TransferRefused(f"{self.card.name!r} cannot hand over to {shown}: {problem}.", allowed=targets)
        brief = text_content(message, "user") if isinstance(message, str) else message
        if brief is not None:
            check_storable(brief, self.card.name)
        await self._floor.hand_over(Handover(agent, self.card.name, brief), self.event())

    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        if segment is None:
            self._calls += 1
            segment = str(self._calls)
        content = text_content(message, "user") if isinstance(message, str) else message
        outcome = await self._ask_in_private(agent, content, segment)
        return outcome.event.content if outcome.event and outcome.event.content else Content()

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
        part = assignment or part_of(self.assignment)
        outcome = await self._run_below(child, branch, message or self.message, part, scope)
        if not followed or part is None or part.is_over:
            await self._floor.flush()
        self.last = outcome.event or self.last
        return outcome

    async def select(
        self,
        selector: Selector,
        *,
        among: tuple[str, ...],
        answer: Event | None = None,
        tasks: Mapping[str, int] | None = None,
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
        )
        verdict = await selector.select(request)
        if self._floor.has_undelivered_decision:
            self._floor.hold(self.event())
        positions = {} if verdict.position is None else {place: verdict.position}
        step = StepRecord(key=key, value=decided(verdict))
        self._floor.decided(decision_of(verdict, request, among[0]), positions, step)
        return verdict

    async def escalate(self) -> None:
        self.escalated = True

    @overload
    async def step(self, key: str, work: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, key: str, work: Callable[[], T]) -> T: ...
    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        return await self._steps.step(key, work)

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        return await self._steps.once(key, make)

    async def _take(self, event: Event) -> None:
        """Records an event that the agent yields: partial ones are only shown, hand-overs and ends wait for its end."""
        if event.partial:
            await self._show(event)
            return
        actions = event.actions
        if actions.transfer_to is not None:
            await self._transfer_or_report(actions.transfer_to, actions.brief)
        self.escalated = self.escalated or actions.escalate
        stored = await self._emit_own(event.model_copy(update={"actions": actions.model_copy(update={"steps": ()})}))
        awaits = stored.actions.awaits
        self.waits = self.waits or (awaits is not None and awaits.id not in self._floor.journal.replies)

    async def _emit_own(self, event: Event) -> Event:
        """Records an event without what only the runner decides: ends, selections, rewinds, answers and so on are not an
        agent's to say. One with an end is held, so that the end is stored with it."""
        actions = event.actions
        if actions.checkpoint:
            self._floor.unsaid.hold()
        own = Actions(
            state_delta=actions.state_delta,
            artifact_versions=actions.artifact_versions,
            next=actions.next,
            awaits=actions.awaits,
            usage=actions.usage,
            cut_off=actions.cut_off,
            summary=actions.summary,
            steps=actions.steps,
            checkpoint=actions.checkpoint,
        )
        return await self._emit(event.model_copy(update={"actions": own}), hold=actions.end is not None)

    async def _play(self) -> None:
        """Runs the agent and takes its events; then what it left unrecorded is put behind its last word."""
        events = self._floor.cast.agents[self.card.name].run(self)
        try:
            async for event in events:
                await self._take(event)
        except Suspend:
            self._hold_leftovers()
            raise
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        if self.escalated:
            self._floor.hold(self._with_leftovers(self.event(escalate=True)))
        self._hold_leftovers()
        if self.waits:
            raise Suspend

    def _report(self, error: TurnwiseError) -> None:
        """Puts an error event of this agent on record, once for each error, however far it travels."""
        if self._floor.failure is not error and self._floor.recorder.problem is None:
            self._floor.failure = error
            info = ErrorInfo(code=error.code, message=told(error))
            self._floor.hold(self.event().model_copy(update={"error": info}))

    async def _emit(self, event: Event, *, hold: bool = False) -> Event:
        """Stamps and records one event, or finds it recorded."""
        if self._replay.has(spot_of(self.branch)):
            self._forget()
            if event.content is None and event.actions.awaits is None:
                return event  # recorded, but the journal keeps only what is said
            return self._heard(self._replay.take(spot_of(self.branch)))
        return await self._store(event, hold=hold)

    async def _store(self, event: Event, *, hold: bool) -> Event:
        stamped = self._with_leftovers(
            event.model_copy(
                update={
                    "id": self._floor.ids.own(event.id, partial=False),
                    "author": self.card.name,
                    "invocation_id": self.invocation_id,
                    "branch": self.branch,
                    "within": spot_of(self.branch).step,
                    "sequence": None,
                    "content": event.content and event.content.model_copy(update={"role": "agent"}),
                }
            )
        )
        stored = await self._floor.emit(stamped, hold=hold)
        if stored.actions.awaits is not None:
            self._stated.add(stored.actions.awaits.id)
        return self._heard(stored)

    def _find(self, event: Event) -> Event:
        if self._replay.pass_event(Spot(event.branch, event.within), event.id):
            self._forget()
        return self._heard(event)

    def _heard(self, event: Event) -> Event:
        self.model_calls += model_calls(event)
        if answers(event):
            self.last = event
        return event

    def _wait(self, kind: Literal["reply", "tool_result"], id_: str) -> Await:
        expires_at = self._floor.cast.issuer.now() + timedelta(seconds=self.config.limits.wait_seconds)
        return Await(id=id_, kind=kind, expires_at=expires_at)

    async def _wait_on(self, wait: Await) -> None:
        await self._store(self.event(awaits=wait), hold=True)

    def _with_leftovers(self, event: Event) -> Event:
        if not self._writes:
            return event
        actions = event.actions.model_copy(
            update={
                "state_delta": {**self._writes.state, **event.actions.state_delta},
                "artifact_versions": {**self._writes.saved, **event.actions.artifact_versions},
                "steps": (*self._writes.steps, *event.actions.steps),
            }
        )
        self._floor.keep_temporary(self._writes.state)
        self._writes.clear()
        return event.model_copy(update={"actions": actions})

    def _hold_leftovers(self) -> None:
        if self._writes:
            self._floor.hold(self._with_leftovers(self.event()))

    def _forget(self) -> None:
        self._floor.keep_temporary(self._writes.recorded())

    async def _show(self, event: Event) -> None:
        visible = None if self._replay.has(spot_of(self.branch)) else self._pieces.feed(event)
        if visible is not None:
            id_ = self._floor.ids.own(event.id, partial=True)
            blank = bare_event(self._floor.cast.issuer, self.card.name, self.invocation_id, self.branch)
            shown = {"id": id_, "content": visible.content, "partial": True, "offset": visible.offset}
            await self._floor.show(blank.model_copy(update=shown))

    async def _unknown(self, name: str) -> str:
        """A name that no agent has, as it may be told; what guardrails did to it is put on record."""
        shown, guarded = await self._floor.guarding.name(name, self.card.name)
        if guarded:
            self._floor.hold(self.event(guarded=guarded))
        return shown

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
            self._replay.come_to(branch)
            outcome = self._floor.journal.outcome(branch)
            self.model_calls += outcome.model_calls
            return outcome
        below, given = Frame(self._floor, agent, branch, message, assignment, scope), self._floor.handover
        try:
            await perform(below)
        finally:
            self.model_calls += below.model_calls  # those of a run that failed, too
        if self._floor.handover is given:
            self._floor.finish_branch(branch)  # who handed over does so again when the turn is taken up again
        last = below.last
        moved = self._floor.handover is not None
        text, next_ = (last.text, last.actions.next) if last else ("", None)
        return Outcome(text, below.escalated, moved, next_, last, below.model_calls)

    def _reachable(self, agent: str) -> bool:
        return self._floor.cast.tree.reachable(agent, self.message_context.roles)


async def perform(frame: Frame) -> None:
    """Runs the agent to its end and records what it emits; raises as `performed`.

    The innermost failing agent gets the error event.
    """
    with frame._floor.unsaid.of(frame._hold_leftovers):
        await performed(frame.card, frame._play, frame._report)
