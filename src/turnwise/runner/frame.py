"""One agent's run: the context it gets, and the loop that takes its events."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Literal, TypeVar, overload

from pydantic import JsonValue

from turnwise.facts.content import Content, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed, AgentTimeout, LimitReached, TransferRefused, TurnwiseError
from turnwise.facts.events import Actions, Await, ErrorInfo, Event, StepRecord, segment_of
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.context import Outcome, Show, Stream, Suspend
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.runner.closing import bare_event, told
from turnwise.runner.floor import Floor, Handover, check_storable
from turnwise.runner.journal import DECISION, answers
from turnwise.runner.stepping import Steps, Voice
from turnwise.runner.streaming import PieceFilter, open_stream
from turnwise.runner.views import ArtifactsView, HistoryView, StateView
from turnwise.runner.writes import Writes

T = TypeVar("T")

ERROR_CHARACTERS = 500
_DECIDED = {"selector", "outcome", "agent", "method", "confidence", "reason"}


class Frame:
    """The context of one agent run on one branch (implements `AgentContext`).

    When an invocation is taken up again, the run begins anew: as long as the replay has events of it, what it emits is
    already in the log and is not emitted again.
    """

    def __init__(self, floor: Floor, agent: str, branch: str, message: Content) -> None:
        self.card = floor.cast.tree.card(agent)
        self.session = floor.key
        self.invocation_id = floor.invocation_id
        self.message, self.message_context, self.config = message, floor.context, floor.config
        self.notice = floor.notice
        self.branch = branch
        self.last: Event | None = None
        self.escalated = False
        self.waits = False
        self._floor = floor
        self._writes = Writes()
        self._stated: set[str] = set()
        self._replay = floor.replay
        self._calls = 0
        self._selections = 0
        self._pieces = PieceFilter()
        voice = Voice(self.event, lambda: self._replay.leave(branch), self._emit_own, self._emit, self._find, self._show)
        self._steps = Steps(floor, branch, voice, self._writes)
        self.history = HistoryView(floor, branch)
        self.state = StateView(floor, self._writes)
        self.artifacts = ArtifactsView(floor.cast.artifacts, floor.key, floor.config.limits, self._writes)

    @property
    def tree(self) -> AgentTree:
        return self._floor.cast.tree

    @property
    def transfer_targets(self) -> tuple[str, ...]:
        if self._floor.stopped is not None or "/>" in self.branch:
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
            actions=Actions(**actions),
        )

    async def say(self, content: str | Content, *, scope: tuple[str, ...] = ()) -> Event:
        return await self._emit(self.event(content).model_copy(update={"scope": scope}))

    def stream(self) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.event(), self._take)

    async def ask(
        self, question: str | Content, *, tool: str | None = None, arguments: dict[str, JsonValue] | None = None
    ) -> Content:
        recorded = self._replay.next_question(self.branch)
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
            if self._replay.pass_wait(self.branch, call):
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
            raise TransferRefused(f"{self.card.name!r} cannot hand over to {agent!r}: {problem}.", allowed=targets)
        brief = text_content(message, "user") if isinstance(message, str) else message
        if brief is not None:
            check_storable(brief, self.card.name)
        await self._floor.hand_over(Handover(agent, self.card.name, brief), self.event())

    async def call(self, agent: str, message: str | Content, *, segment: str | None = None) -> Content:
        if self.branch.count("/>") >= self.config.limits.call_depth:
            raise LimitReached("call_depth", f"Agents called each other {self.config.limits.call_depth} levels deep.")
        if agent not in self._floor.cast.tree or not self._reachable(agent):
            raise AgentFailed(f"{self.card.name!r} called {agent!r}, which does not exist or is not allowed here.")
        if segment is None:
            self._calls += 1
            segment = str(self._calls)
        content = text_content(message, "user") if isinstance(message, str) else message
        outcome = await self._run_below(agent, f"{self.branch}/>{segment_of(agent)}#{segment_of(segment)}", content)
        return outcome.event.content if outcome.event and outcome.event.content else Content()

    async def delegate(self, child: str, *, segment: str, message: Content | None = None) -> Outcome:
        if not self._reachable(child):
            return Outcome()
        outcome = await self._run_below(child, f"{self.branch}/{segment}", message or self.message)
        self.last = outcome.event or self.last
        return outcome

    async def select(self, selector: Selector, *, among: tuple[str, ...], answer: Event | None = None) -> Verdict:
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
            occasion="message" if answer is None else "answer",
            answer=answer,
            positions={selector.name: self._floor.head_positions.get(place, 0)},
        )
        verdict = await selector.select(request)
        if self._floor.has_undelivered_decision:
            self._floor.hold(self.event())
        positions = {} if verdict.position is None else {place: verdict.position}
        step = StepRecord(key=key, value=verdict.model_dump(mode="json", include=_DECIDED))
        self._floor.decided(_decision(verdict, request, among[0]), positions, step)
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
        own = Actions(
            state_delta=actions.state_delta,
            artifact_versions=actions.artifact_versions,
            next=actions.next,
            awaits=actions.awaits,
            usage=actions.usage,
            summary=actions.summary,
            steps=actions.steps,
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
        if self._replay.has(self.branch):
            self._forget()
            if event.content is None and event.actions.awaits is None:
                return event  # recorded, but the journal keeps only what is said
            return self._heard(self._replay.take(self.branch))
        return await self._store(event, hold=hold)

    async def _store(self, event: Event, *, hold: bool) -> Event:
        stamped = self._with_leftovers(
            event.model_copy(
                update={
                    "id": self._floor.ids.own(event.id, partial=False),
                    "author": self.card.name,
                    "invocation_id": self.invocation_id,
                    "branch": self.branch,
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
        if self._replay.pass_event(self.branch, event.id):
            self._forget()
        return self._heard(event)

    def _heard(self, event: Event) -> Event:
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
            }
        )
        self._forget()
        return event.model_copy(update={"actions": actions})

    def _hold_leftovers(self) -> None:
        if self._writes:
            self._floor.hold(self._with_leftovers(self.event()))

    def _forget(self) -> None:
        self._floor.keep_temporary(self._writes.state)
        self._writes.clear()

    async def _show(self, event: Event) -> None:
        visible = None if self._replay.has(self.branch) else self._pieces.feed(event)
        if visible is not None:
            id_ = self._floor.ids.own(event.id, partial=True)
            blank = bare_event(self._floor.cast.issuer, self.card.name, self.invocation_id, self.branch)
            shown = {"id": id_, "content": visible.content, "partial": True, "offset": visible.offset}
            await self._floor.show(blank.model_copy(update=shown))

    async def _transfer_or_report(self, target: str, brief: Content | None) -> None:
        try:
            await self.transfer(target, message=brief)
        except TransferRefused as refused:
            info = ErrorInfo(code=refused.code, message=str(refused))
            await self._floor.emit(self.event().model_copy(update={"error": info}))

    async def _run_below(self, agent: str, branch: str, message: Content) -> Outcome:
        if branch in self._floor.journal.finished:
            return self._floor.journal.outcome(branch)
        below, given = Frame(self._floor, agent, branch, message), self._floor.handover
        await perform(below)
        await self._floor.flush()
        if self._floor.handover is given:
            self._floor.finish_branch(branch)  # who handed over does so again when the turn is taken up again
        last = below.last
        moved = self._floor.handover is not None
        return Outcome(last.text if last else "", below.escalated, moved, last.actions.next if last else None, last)

    def _reachable(self, agent: str) -> bool:
        return self._floor.cast.tree.reachable(agent, self.message_context.roles)


async def perform(frame: Frame) -> None:
    """Runs the agent to its end and records what it emits.

    Raises Suspend when it waits, AgentTimeout, AgentFailed for whatever else it raises, chained; other typed errors as
    they are. The innermost failing agent gets the error event.
    """
    try:
        async with asyncio.timeout(frame.card.time_limit) as clock:
            await frame._play()
    except TimeoutError as error:
        problem: TurnwiseError
        if clock.expired():
            problem = AgentTimeout(
                f"Agent {frame.card.name!r} took longer than its {frame.card.time_limit} s.", fix="Raise its time_limit."
            )
        else:
            problem = _failed(frame.card.name, error)
        frame._report(problem)
        raise problem from error
    except TurnwiseError as error:
        frame._report(error)
        raise
    except (GeneratorExit, KeyboardInterrupt, Suspend):
        raise
    except BaseException as error:
        # SystemExit, a panic of an extension module, a cancellation nobody asked for: the agent's failure, not ours.
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        problem = _failed(frame.card.name, error)
        frame._report(problem)
        raise problem from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(agent: str, error: BaseException) -> AgentFailed:
    return AgentFailed(f"Agent {agent!r} raised {type(error).__name__}: {told(error)[:ERROR_CHARACTERS]}")


def _decision(verdict: Verdict, request: SelectionRequest, lead: str) -> Selection:
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
