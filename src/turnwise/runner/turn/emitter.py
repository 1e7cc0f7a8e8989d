"""Emits the events of one agent run: stamps them, records them, and skips those that a resumed run has already recorded."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from turnwise.facts.branch import Branch
from turnwise.facts.content import Content, text_content
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import Actions, Await, Event
from turnwise.runner.record.events import empty_event, error_text
from turnwise.runner.record.journal import StepScope, current_scope, model_calls
from turnwise.runner.turn.answer_limits import check_storable
from turnwise.runner.turn.misuse import named, no_attribute
from turnwise.runner.turn.pending_writes import PendingWrites
from turnwise.runner.turn.state import InvocationState, is_long
from turnwise.selection.conversational import NextTagFilter
from turnwise.tools.event_loop import LoopYielder

Take = Callable[[Event], Awaitable[None]]


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
