"""Emits the events of one agent run: stamps them, records them, and skips those that a resumed run has already recorded.

Steps are work that is recorded once and read from the record when its turn runs again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from turnwise.facts.content import Content, ToolResultPart, text_content
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import Actions, Await, Branch, Event, StepRecord
from turnwise.ports.context import Show
from turnwise.runner.record.events import empty_event, error_text
from turnwise.runner.record.journal import StepScope, current_scope, model_calls, step_scope, with_step_value
from turnwise.runner.turn.agent_checks import as_json, check_storable, named, no_attribute
from turnwise.runner.turn.pending_writes import PendingWrite, PendingWrites, collect_writes
from turnwise.runner.turn.state import InvocationState, is_long
from turnwise.selection.conversational import NextTagFilter
from turnwise.tools.event_loop import LoopYielder

Take = Callable[[Event], Awaitable[None]]

_AGENT_ACTIONS = (
    "state_delta",
    "artifact_versions",
    "next",
    "awaits",
    "usage",
    "cut_off",
    "note",
    "note_memory",
    "summary",
    "jobs",
    "steps",
    "checkpoint",
)
"""The actions that an agent may set. The runner sets all others, such as ends, selections, rewinds and answers."""


class TextStream:
    """Collects the pieces of an answer and shows each one. All pieces share one event id (behaviour A19)."""

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.stream()")

    def __init__(self, blank: Event, take: Take) -> None:
        self._blank, self._take = blank, take
        self._pieces: list[str] = []

    @named("context.stream().write")
    async def write(self, text: str) -> None:
        self._pieces.append(text)
        await self._take(self._blank.replace(content=text_content(text), partial=True))

    async def finish(self) -> None:
        """Stores the complete answer. Does nothing when nothing was written."""
        if text := "".join(self._pieces):
            await self._take(self._blank.with_content(text_content(text)))


@asynccontextmanager
async def open_stream(blank: Event, take: Take) -> AsyncIterator[TextStream]:
    """Streams one event. If the block raises, the pieces have been shown but the complete answer is not stored."""
    stream = TextStream(blank, take)
    yield stream
    await stream.finish()


class PieceFilter:
    """Removes `<next>` tags from streamed text, also when a tag spans pieces (behaviour B6), and counts the visible
    characters.
    """

    def __init__(self) -> None:
        self._filters: dict[str, NextTagFilter] = {}
        self._shown: dict[str, int] = {}

    def feed(self, event: Event) -> Event | None:
        """Returns the partial event with its visible text and offset; None when none of it is visible yet."""
        offset = self._shown.get(event.id, 0)
        if not event.text:
            return event.replace(offset=offset)
        tags = self._filters.setdefault(event.id, NextTagFilter())
        visible = tags.feed(event.text)
        if not visible:
            return None
        self._shown[event.id] = offset + len(visible)
        return event.replace(content=text_content(visible), offset=offset)


class EventEmitter:
    """Emits the events of one agent run on one branch, with the given scope labels.

    While the replay has recorded events of the run, the emitter returns those instead of storing new ones.
    """

    def __init__(
        self, invocation: InvocationState, agent: str, branch: Branch, labels: tuple[str, ...], writes: PendingWrites
    ) -> None:
        self.last: Event | None = None
        """The last event that answers."""
        self.model_calls = 0
        """The number of model calls for the emitted events."""
        self._invocation, self._agent, self._branch, self._labels = invocation, agent, branch, labels
        self._writes, self._replay = writes, invocation.replay
        self._stated_waits: set[str] = set()
        self._pieces = PieceFilter()
        self._yielding = LoopYielder()

    def event(self, content: str | Content | None = None, **actions: Any) -> Event:
        """Returns a new event of the agent."""
        return Event(
            id=self._invocation.ids.issue(),
            author=self._agent,
            invocation_id=self._invocation.invocation_id,
            created_at=self._invocation.runtime.issuer.now(),
            content=text_content(content) if isinstance(content, str) else content,
            branch=self._branch,
            scope=self._labels,
            actions=Actions(**actions),
        )

    async def say_permitted(self, event: Event) -> Event:
        """Emits an event with only the actions that an agent may set. An event with an end is buffered and stored with the
        end.
        """
        actions = event.actions
        if actions.checkpoint:
            self._invocation.unrecorded.buffer()
        own = Actions(**{name: getattr(actions, name) for name in _AGENT_ACTIONS})
        return await self.say(event.replace(actions=own), buffer=actions.end is not None)

    async def say(self, event: Event, *, buffer: bool = False) -> Event:
        """Stamps and records one event, or returns the recorded one during a replay."""
        if self._replay.has(current_scope(self._branch)):
            self.reach_recorded()
            if event.content is None and event.actions.awaits is None:
                return event  # recorded, but the journal keeps no event without content
            return self._track(self._replay.take(current_scope(self._branch)))
        return await self._store(event, buffer=buffer)

    async def state_wait(self, wait: Await) -> None:
        """Records that the run waits for `wait`, unless this attempt has already done so."""
        if wait.id not in self._stated_waits:
            await self._store(self.event(awaits=wait), buffer=True)

    async def show(self, event: Event) -> None:
        """Shows a partial event, unless its final event is already recorded. Lets other tasks run in between.

        Raises AgentFailed as `check_storable`, and LimitReached (answer_bytes).
        """
        if event.content is not None:
            self._invocation.size.add_piece(event.id, self._agent, event.content)
        await self._yielding.turn()
        if self._replay.has(current_scope(self._branch)):
            return
        visible = await asyncio.to_thread(self._pieces.feed, event) if is_long(event) else self._pieces.feed(event)
        if visible is not None:
            check_storable(visible.content or Content(), self._agent)
            id_ = self._invocation.ids.own(event.id, partial=True)
            blank = empty_event(self._invocation.runtime.issuer, self._agent, self._invocation.invocation_id, self._branch)
            piece = blank.replace(id=id_, content=visible.content, partial=True, offset=visible.offset, scope=self._labels)
            await self._invocation.show(piece)

    def find_recorded(self, event: Event) -> Event:
        """Advances the replay to an event that is known to be recorded, and returns the event."""
        if self._replay.skip_to_event(StepScope(event.branch, event.within), event.id):
            self.reach_recorded()
        return self._track(event)

    def start_new(self) -> None:
        """Skips the rest of the replay for the current scope: the run now does something that is not recorded."""
        self._replay.skip_all(current_scope(self._branch))

    def reach_recorded(self) -> None:
        """Drops the writes that the recorded event holds: the replay has reached it."""
        self._invocation.keep_temporary(self._writes.take_recorded())

    async def report(self, error: TurnwiseError) -> None:
        """Records an error event of this agent, once per error, even when the error passes through several agents.

        Guardrails filter the error's text first, since an exception may quote private data. If they change it, the
        exception itself keeps only the filtered text.
        """
        if self._invocation.failure is error or self._invocation.recorder.problem is not None:
            return
        self._invocation.failure = error
        info, guarded = await self._invocation.guardrails.error(error.code, error_text(error), self._agent)
        if guarded:
            error.problem, error.fix = info.message, ""
        self._invocation.buffer(self.event(guarded=guarded).replace(error=info))

    def buffer_writes(self, *, escalate: bool = False) -> None:
        """Buffers an event with the writes that no event holds yet, or with the request to leave the enclosing loop."""
        if self._writes or escalate:
            self._invocation.buffer(self._with_writes(self.event(escalate=escalate)))

    async def safe_name(self, name: str) -> str:
        """Returns the name of an unknown agent in a form that guardrails allow in error texts. Records any guardrail action."""
        shown, guarded = await self._invocation.guardrails.name(name, self._agent)
        if guarded:
            self._invocation.buffer(self.event(guarded=guarded))
        return shown

    async def check_names(self, what: str, names: Iterable[str]) -> None:
        """Checks names that the agent chose, as `Guardrails.check_names`.

        A flow names its events after its tasks: its author declared them, or guardrails checked the plan that did.
        """
        runtime = self._invocation.runtime
        if runtime.guardrails and runtime.tree.card(self._agent).kind != "flow":
            await self._invocation.guardrails.check_names(what, names, self._agent)

    async def _store(self, event: Event, *, buffer: bool) -> Event:
        """Stamps the event with agent, branch, invocation and pending writes, checks its names, and stores or buffers it."""
        stamped = self._with_writes(
            event.replace(
                id=self._invocation.ids.own(event.id, partial=False),
                author=self._agent,
                invocation_id=self._invocation.invocation_id,
                branch=self._branch,
                within=current_scope(self._branch).step,
                sequence=None,
                content=event.content and event.content.replace(role="agent"),
            )
        )
        await self.check_names("a name in an event", _own_names(stamped, self._labels))
        stored = await self._invocation.emit(stamped, buffer=buffer)
        if stored.actions.awaits is not None:
            self._stated_waits.add(stored.actions.awaits.id)
        return self._track(stored)

    def _track(self, event: Event) -> Event:
        self.model_calls += model_calls(event)
        if event.is_answer:
            self.last = event
        return event

    def _with_writes(self, event: Event) -> Event:
        """Returns the event with the run's pending writes, which are then cleared."""
        if not self._writes:
            return event
        complete = event.with_actions(
            state_delta={**self._writes.state, **event.actions.state_delta},
            artifact_versions={**self._writes.saved, **event.actions.artifact_versions},
            remembered=(*self._writes.remembered.values(), *event.actions.remembered),
            steps=(*self._writes.steps, *event.actions.steps),
        )
        self._invocation.keep_temporary(self._writes.state)
        self._writes.clear()
        return complete


class Keys:
    """The keys of a run's recorded steps (`AgentContext.recorded`)."""

    def __init__(self, invocation: InvocationState, branch: Branch) -> None:
        self._invocation, self._branch = invocation, branch

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._branch.step_key(key) in self._invocation.steps


class Steps:
    """The steps of one agent run on one branch."""

    def __init__(self, invocation: InvocationState, branch: Branch, emitter: EventEmitter, writes: PendingWrites) -> None:
        self._invocation, self._branch, self._emitter, self._writes = invocation, branch, emitter, writes
        self._once: dict[str, Event] = {}
        self._seen_keys: set[str] = set()
        self.keys = Keys(invocation, branch)

    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        """Returns the result of `work`, or its recorded result (`AgentContext.step`)."""
        full_key = self._branch.step_key(key)
        known = self._find_record(full_key)
        scope = StepScope(self._branch, full_key)
        if known is not None:
            self._invocation.replay.skip_all(scope)
            return known.value
        await self._check_key(key)
        await self._invocation.recorder.confirm()
        with collect_writes() as written, step_scope(scope):
            made = work()
            result = await made if isawaitable(made) else made
        event, call = self._emitter.event(), None
        self._invocation.size.check_value(event.author, result.result if isinstance(result, ToolResultPart) else result)
        if isinstance(result, ToolResultPart):
            call = result.call_id
            event, result = await self._guarded_result(event, result)
        value = as_json(f"The result of step {key!r}", result)
        record = _record(full_key, written, value=value, call=call)
        self._invocation.steps[full_key] = record
        # With the record: a new attempt does not repeat the work, and the record has no texts.
        remembered = self._writes.take_remembered(written.remembered)
        await self._invocation.emit(_with(event, record).with_actions(remembered=remembered))
        return value

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """Emits the event of `make` once (`AgentContext.once`)."""
        full_key = self._branch.step_key(key)
        known = self._find_record(full_key)
        if known is None:
            await self._check_key(key)
            said = await self._make_event(full_key, make)
        elif recorded := self._once.get(full_key) or self._invocation.once_events.get(full_key):
            said = self._emitter.find_recorded(recorded)
        else:
            again = with_step_value(self._emitter.event(), known.value)
            said = await self._emitter.say(_with(again, known.replace(value=None)))
        self._once[full_key] = said
        return said

    async def _make_event(self, full_key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """Makes and emits the event of a `once` step, and records the step with it."""
        await self._invocation.recorder.confirm()
        self._emitter.start_new()
        with collect_writes() as written:
            made = await make(self._emitter.show)
        record = _record(full_key, written, says=True)
        # The journal skips events without content, so the event gets an empty one.
        said = await self._emitter.say_permitted(_with(made.with_content(made.content or Content()), record))
        self._invocation.steps[full_key] = record
        return said

    async def _guarded_result(self, event: Event, part: ToolResultPart) -> tuple[Event, dict[str, Any]]:
        """Returns the tool result after guardrails, and the event that records it with their actions."""
        said = await self._invocation.guardrails.event(event.with_content(Content(parts=(part,))))
        left = (said.content or Content()).tool_results[0]
        return said.with_content(None), {"result": left.result, "failed": left.failed}

    async def _check_key(self, key: str) -> None:
        """Raises AgentFailed if guardrails do not allow the key in the log."""
        await self._emitter.check_names("the key of a step", [key])

    def _find_record(self, full_key: str) -> StepRecord | None:
        """Returns the recorded step; None for a new one. Its writes are applied when it is first reached."""
        known = self._invocation.steps.get(full_key)
        if known is not None and full_key not in self._seen_keys:
            if full_key in self._invocation.journal.inherited:
                self._writes.redo(known)
            else:
                self._writes.restore(known)
        self._seen_keys.add(full_key)
        return known


def _own_names(event: Event, labels: tuple[str, ...]) -> Iterator[str]:
    """Yields the names that the agent chose for an event, apart from keys of the state.

    Args:
        event: The event.
        labels: The labels that every event of the run has.
    """
    actions = event.actions
    yield from (label for label in event.scope if label not in labels)
    yield from actions.artifact_versions
    yield from (job.kind for job in actions.jobs)
    if actions.cut_off:
        yield actions.cut_off


def _record(key: str, written: PendingWrite, **values: Any) -> StepRecord:
    """Returns the record of a step with the writes that it made."""
    return StepRecord(
        key=key,
        state_delta=written.state,
        artifact_versions=written.saved,
        remembered=tuple(written.remembered.values()),
        recalled=tuple(sorted(written.recalled)),
        **values,
    )


def _with(event: Event, record: StepRecord) -> Event:
    return event.with_actions(steps=(record,))
