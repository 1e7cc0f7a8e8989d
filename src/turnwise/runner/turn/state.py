"""State that all agent runs of one invocation share: the recorder, buffered events, and the next handoff."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.branch import Branch
from turnwise.facts.content import Content, TextPart
from turnwise.facts.errors import LimitReached, TransferRefused, TurnwiseError
from turnwise.facts.events import End, Event, StepRecord
from turnwise.facts.ids import Issuer
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import TEMP_PREFIX, SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.guardrail import Guardrail
from turnwise.ports.stores import ArtifactStore, SessionStore
from turnwise.runner.agent_sets import AgentSet
from turnwise.runner.allowances import Allowances, check_agent_state
from turnwise.runner.experiments import ExperimentAssignments
from turnwise.runner.guards.memory_guard import MemoryGuard
from turnwise.runner.guards.stream_guard import StreamGuard
from turnwise.runner.memory import MemoryService
from turnwise.runner.record.events import EventIds
from turnwise.runner.record.journal import Journal, Replay
from turnwise.runner.record.recorder import Recorder
from turnwise.runner.rests import AgentRests
from turnwise.runner.turn.answer_limits import AnswerSize, check_storable, is_long_content
from turnwise.runner.turn.pending_writes import UnrecordedWrites
from turnwise.selection.conversational import can_name, take_next

_LONG_TEXT = 16_384


@dataclass(frozen=True, slots=True)
class Services:
    """The services of an app. They stay the same while it runs."""

    store: SessionStore
    artifacts: ArtifactStore | None
    allowances: Allowances
    guardrails: Sequence[Guardrail]
    issuer: Issuer
    rests: AgentRests
    memory: MemoryService
    experiments: ExperimentAssignments

    def runtime(self, agent_set: AgentSet) -> "Runtime":
        """Returns the runtime of an invocation that uses this set of agents."""
        values = (self.store, self.artifacts, self.allowances, self.guardrails, self.issuer, self.rests, self.memory)
        return Runtime(*values, self.experiments, agent_set)


@dataclass(frozen=True, slots=True)
class Runtime(Services):
    """The services and the set of agents of one invocation. It keeps the set that it began with."""

    agent_set: AgentSet

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self.agent_set.agents

    @property
    def tree(self) -> AgentTree:
        return self.agent_set.tree


class Handoff(NamedTuple):
    """A handoff from agent `by` to agent `target`."""

    target: str
    by: str
    brief: Content | None = None
    """The message for the target, in place of the user's last message."""


class InvocationState:
    """The shared state of one invocation. Agent runs emit their events through it.

    Some events are buffered, so that one append can store them with the end of the turn. Any later emit, and any read of
    the log, stores them first.
    """

    def __init__(
        self,
        runtime: Runtime,
        recorder: Recorder,
        journal: Journal,
        *,
        turn: int,
        invocation_id: str,
        message: Content,
        context: MessageContext,
        config: RunConfig,
    ) -> None:
        self.runtime, self.journal, self._recorder = runtime, journal, recorder
        self.invocation_id, self.message, self.context, self.config = invocation_id, message, context, config
        self.key: SessionKey = recorder.session.key
        self.store = runtime.store
        self.ids = EventIds(runtime.issuer)
        self.replay = Replay(journal, turn)
        self.temp: dict[str, JsonValue] = {}
        """The `temp:` keys of the state."""
        self.handoff: Handoff | None = None
        """The handoff that follows the current turn."""
        self.steps: dict[str, StepRecord] = dict(journal.steps)
        self.once_events: dict[str, Event] = dict(journal.once_events)
        self.remembered: set[str] = set(journal.remembered)
        """The ids of the entries that this invocation put into the memory."""
        self.recalled: dict[str, str] = {}
        """The texts of the entries that its agents read, by id."""
        self.stopped: End | None = None
        """The end of an invocation with stopped handoffs."""
        self.failure: TurnwiseError | None = None
        """The last error with a recorded event."""
        self.notice = ""
        """Tells the agent why its turn is unusual."""
        self._buffered: list[Event] = []
        self._changed = set(journal.state_before)
        self._before: dict[str, JsonValue] = {}
        """Earlier values of changed keys that no event holds yet."""
        self._records_before = bool(journal.state_before)
        self._pending: dict[str, Any] = {}
        """Actions for the next event."""
        self._event_count = journal.event_count
        self.size = AnswerSize(config.limits)
        self.unrecorded = UnrecordedWrites()
        self.guardrails = MemoryGuard(runtime.guardrails, config.limits.guardrail_seconds)
        self._stream_guard = StreamGuard(self.guardrails.stages)
        if journal.stopped is not None:
            self.stop(journal.stopped)

    @property
    def head_positions(self) -> Mapping[str, int]:
        return self._recorder.session.head.positions

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    def state(self) -> dict[str, JsonValue]:
        """Returns the merged state with the writes of buffered events. A None value is an absent key."""
        return self.replay.state(self._state_now()) | self.temp

    def _state_now(self) -> dict[str, JsonValue]:
        merged = self._recorder.session.merged_state
        for event in self._buffered:
            merged |= event.actions.state_delta
        return merged

    def _delta_with(self, event: Event) -> dict[str, JsonValue]:
        """Returns the state changes of the buffered events and of this one."""
        delta: dict[str, JsonValue] = {}
        for each in (*self._buffered, event):
            delta |= each.actions.state_delta
        return delta

    def finish_branch(self, branch: Branch) -> None:
        """Marks the run on that branch as finished; the next event records it."""
        self._pending["finished"] = (*self._pending.get("finished", ()), branch)

    @property
    def has_undelivered_decision(self) -> bool:
        return "selection" in self._pending

    def record_decision(self, selection: Selection, positions: Mapping[str, int], step: StepRecord) -> None:
        """Adds a decision inside this invocation to the next event."""
        self._pending |= {"selection": selection, "positions": dict(positions), "steps": (step,)}

    async def emit(self, event: Event, *, buffer: bool = False) -> Event:
        """Stores or buffers an agent's event, after tags are removed and guardrails have run.

        Returns:
            The event as recorded.

        Raises:
            LimitReached: `events`, `answer_bytes`, `invocation_bytes`, `blob_bytes`, `session_state_bytes` or
                `user_state_bytes`.
        """
        if event.actions.state_delta:
            check_agent_state(self._recorder.session, self._delta_with(event), self.config.limits)
        if self._event_count >= self.config.limits.events:
            raise LimitReached("events", f"The invocation made more than {self.config.limits.events} events.")
        long = is_long_content(event.content)
        if long:
            await asyncio.to_thread(self.size.check_content, event)
        else:
            self.size.check_content(event)
        self._stream_guard.forget(event.id)
        event = await asyncio.to_thread(_without_tag, event) if is_long(event) else _without_tag(event)
        if self.runtime.guardrails:
            event = _without_unknown_next(event, self.runtime.tree)
        event = await self.guardrails.event(event)
        size = await asyncio.to_thread(check_storable, event, event.author) if long else None
        event = self.buffer(event, size)
        if not buffer:
            await self.flush()
        return event

    async def hand_off(self, handoff: Handoff, note: Event) -> None:
        """Sets the next handoff. Guardrails filter its brief; the event `note` records their actions.

        Raises:
            TransferRefused: A handoff was set before, or the brief is blocked.
        """
        self._refuse_second(handoff)
        if handoff.brief is not None:
            passed = await self.guardrails.brief(handoff.brief, handoff.by)
            self._refuse_second(handoff)
            if passed.guarded:
                self.buffer(note.with_actions(guarded=passed.guarded))
            if passed.content is None:
                by = passed.guarded[-1]
                problem = f"the guardrail {by.guardrail!r} blocked the message: {by.reason}"
                raise _handoff_refused(handoff, problem, allowed=(handoff.target,))
            handoff = handoff._replace(brief=passed.content)
        self.handoff = handoff

    def _refuse_second(self, handoff: Handoff) -> None:
        if self.handoff is not None:
            raise _handoff_refused(handoff, f"the floor goes to {self.handoff.target!r} already.")

    async def flush(self) -> None:
        """Stores the buffered events."""
        buffered, self._buffered = self._buffered, []
        if buffered:
            await self._recorder.append(buffered)

    def take_buffered(self) -> list[Event]:
        """Returns and clears the buffered events; the caller stores them with the end of the turn."""
        buffered, self._buffered = self._buffered, []
        return buffered

    def buffer(self, event: Event, size: int | None = None) -> Event:
        """Appends an event to the buffer, with the pending decision and finished branches.

        Args:
            event: The event.
            size: The result of `check_storable`, if it is known.
        """
        event = _with_recalled(self._with_pending(event), self.recalled)
        self.size.add(event, check_storable(event, event.author) if size is None else size)
        delta = event.actions.state_delta
        if delta:
            self.keep_temporary(delta)
            now = self._state_now()
            self._before |= {k: now.get(k) for k in delta if k not in self._changed and not k.startswith(TEMP_PREFIX)}
            self._changed.update(delta)
        event = self._with_before(event)
        self.replay.advance(event.branch)
        self._event_count += 1
        self._buffered.append(event)
        once_steps = [step for step in event.actions.steps if step.says]
        self.steps |= {step.key: step for step in once_steps}  # before the append: its agent may be cancelled meanwhile
        self.once_events |= {step.key: event for step in once_steps}
        return event

    def _with_before(self, event: Event) -> Event:
        """Adds the earlier values of the written keys, if a later attempt may resume after this event.

        Each key is recorded once; otherwise each of a thousand checkpoints would repeat all keys.
        """
        actions = event.actions
        self._records_before = self._records_before or actions.awaits is not None or actions.checkpoint
        if not self._records_before or not self._before:
            return event
        before, self._before = self._before, {}
        return event.with_actions(state_before=before)

    def keep_temporary(self, delta: Mapping[str, JsonValue]) -> None:
        """Keeps the `temp:` keys of a delta for the rest of this invocation."""
        self.temp |= {key: value for key, value in delta.items() if key.startswith(TEMP_PREFIX)}

    def _with_pending(self, event: Event) -> Event:
        pending, self._pending = self._pending, {}
        if not pending:
            return event
        pending["steps"] = (*pending.get("steps", ()), *event.actions.steps)
        return event.with_actions(**pending)

    def buffer_pending(self, bare: Event) -> None:
        """Buffers the bare event if a pending decision or finished branch needs one."""
        if self._pending:
            self.buffer(bare)

    def stop(self, end: End) -> None:
        """Stops all further handoffs. The next agent gets the reason as a notice, and the invocation ends with `end`."""
        self.stopped = end
        self.notice = f"Hand-overs were stopped ({end.reason}): {end.detail} Answer yourself, as well as you can."

    async def show(self, event: Event) -> None:
        """Shows a partial event if the caller wants partial events, limited to the text that guardrails can no longer
        change.
        """
        if not self.config.streaming:
            return
        shown = await self._stream_guard.released(event) if self.runtime.guardrails else event
        if shown is not None:
            self._recorder.show(shown)


def _with_recalled(event: Event, recalled: Mapping[str, str]) -> Event:
    """Returns the event with the ids of the memory entries that it quotes, so that they can be forgotten."""
    noted = [each.id for each in event.actions.note_memory]
    results = event.content.tool_results if event.content is not None else ()
    if not noted and (not recalled or not results):
        return event
    shown = "\n".join(text for part in results for text in _texts(part.result))
    ids = tuple(dict.fromkeys([*noted, *(id_ for id_, text in recalled.items() if text in shown)]))
    return event.with_actions(recalled=ids) if ids else event


def _texts(value: object) -> Iterator[str]:
    """Yields the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def record_answer_decision(invocation: InvocationState, selection: Selection, bare: Event) -> None:
    """Records a decision about the answer that ended a turn: on the last buffered event if it is that answer, else on
    `bare`.
    """
    last = invocation._buffered[-1] if invocation._buffered else None
    if last is None or last.author != bare.author or last.error or last.actions.selection:
        invocation.buffer(bare.with_actions(selection=selection))
    else:
        invocation._buffered[-1] = last.with_actions(selection=selection)


def is_long(event: Event) -> bool:
    """Returns whether the text is long enough to scan in a thread, so that the event loop stays free."""
    return len(event.text) > _LONG_TEXT


def _handoff_refused(handoff: Handoff, problem: str, *, allowed: tuple[str, ...] = ()) -> TransferRefused:
    return TransferRefused(f"{handoff.by!r} cannot hand over to {handoff.target!r}: {problem}", allowed=allowed)


def _without_unknown_next(event: Event, tree: AgentTree) -> Event:
    """Returns the event with an unknown agent name in `next` emptied: guardrails do not check that field."""
    named = event.actions.next
    if not named or can_name(named, (card.name for card in tree)):
        return event
    return event.with_actions(next="")


def _without_tag(event: Event) -> Event:
    """Returns the event with its first `<next>` tag moved from the text to `actions.next` (behaviour B6)."""
    if event.content is None or "<next>" not in event.text:
        return event
    parts, first = [], None
    for part in event.content.parts:
        if isinstance(part, TextPart):
            text, name = take_next(part.text)
            part = part.replace(text=text)  # noqa: PLW2901
            first = name if first is None else first
        parts.append(part)
    if first is None:
        return event
    content = event.content.with_parts(parts)
    return event.replace(content=content, actions=event.actions.replace(next=first))
