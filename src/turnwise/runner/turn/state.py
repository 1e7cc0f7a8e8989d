"""What all agent runs of one invocation share: the record, what is about to be recorded, and who gets the floor next."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

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
from turnwise.runner.guards.guardrails import Guardrails
from turnwise.runner.guards.stream_guard import StreamGuard
from turnwise.runner.record.events import EventIds, with_actions
from turnwise.runner.record.journal import Journal, Replay
from turnwise.runner.record.recorder import Recorder
from turnwise.runner.turn.answer_limits import AnswerSize, check_storable
from turnwise.runner.turn.pending_writes import UnrecordedWrites
from turnwise.selection.conversational import can_name
from turnwise.selection.next_tag import take_next

_LONG_TEXT = 16_384


class Runtime(NamedTuple):
    """What an app's invocations run with. An invocation keeps the cast it began with."""

    agents: Mapping[str, Agent]
    tree: AgentTree
    store: SessionStore
    artifacts: ArtifactStore | None
    guardrails: Sequence[Guardrail]
    issuer: Issuer


class Handoff(NamedTuple):
    """That the floor goes to `target`, by whom, and what the giver tells instead of the user's last message."""

    target: str
    by: str
    brief: Content | None = None


class InvocationState:
    """One invocation's floor. Agent runs emit their events through it.

    `held` are events that their agents cannot follow up, kept back so that the end can be stored with them; whatever is
    emitted later, or reads the log, stores them first.
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
        self.handoff: Handoff | None = None
        self.steps: dict[str, StepRecord] = dict(journal.steps)
        self.once_events: dict[str, Event] = dict(journal.once_events)
        self.stopped: End | None = None
        self.failure: TurnwiseError | None = None
        self.notice = ""
        self._buffered: list[Event] = []
        self._changed = set(journal.state_before)
        self._before: dict[str, JsonValue] = {}
        self._records_before = bool(journal.state_before)
        self._pending: dict[str, Any] = {}
        self._event_count = journal.event_count
        self.size = AnswerSize(config.limits)
        self.unrecorded = UnrecordedWrites()
        self.guardrails = Guardrails(runtime.guardrails, config.limits.guardrail_seconds)
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
        """The merged state as agents see it, with what held events will write; None values are absent keys."""
        return self.replay.state(self._state_now()) | self.temp

    def _state_now(self) -> dict[str, JsonValue]:
        merged = self._recorder.session.merged_state
        for event in self._buffered:
            merged |= event.actions.state_delta
        return merged

    def finish_branch(self, branch: str) -> None:
        """Records with the next event that the run on that branch is over."""
        self._pending["finished"] = (*self._pending.get("finished", ()), branch)

    @property
    def has_undelivered_decision(self) -> bool:
        return "selection" in self._pending

    def record_decision(self, selection: Selection, positions: Mapping[str, int], step: StepRecord) -> None:
        """Records a decision inside this invocation with the next event."""
        self._pending |= {"selection": selection, "positions": dict(positions), "steps": (step,)}

    async def emit(self, event: Event, *, buffer: bool = False) -> Event:
        """Stores an agent's event, after the tag is taken out and the guardrails have looked at it; or holds it.

        Returns it as it is recorded. LimitReached (events, answer_bytes, invocation_bytes, blob_bytes).
        """
        if self._event_count >= self.config.limits.events:
            raise LimitReached("events", f"The invocation made more than {self.config.limits.events} events.")
        self.size.check_content(event)
        self._stream_guard.forget(event.id)
        event = await asyncio.to_thread(_without_tag, event) if is_long(event) else _without_tag(event)
        if self.runtime.guardrails:
            event = _without_unknown_next(event, self.runtime.tree)
        event = self.buffer(await self.guardrails.event(event))
        if not buffer:
            await self.flush()
        return event

    async def hand_off(self, handoff: Handoff, note: Event) -> None:
        """Gives the floor away, with what guardrails leave of the brief; what they did is put on record with the bare `note`.

        TransferRefused when it was given away already, or the brief is blocked.
        """
        self._refuse_second(handoff)
        if handoff.brief is not None:
            passed = await self.guardrails.brief(handoff.brief, handoff.by)
            self._refuse_second(handoff)
            if passed.guarded:
                actions = note.actions.model_copy(update={"guarded": passed.guarded})
                self.buffer(note.model_copy(update={"actions": actions}))
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
        """Stores what is held."""
        buffered, self._buffered = self._buffered, []
        if buffered:
            await self._recorder.append(buffered)

    def take_buffered(self) -> list[Event]:
        """What is held, for whoever stores it with the end of the turn."""
        buffered, self._buffered = self._buffered, []
        return buffered

    def buffer(self, event: Event) -> Event:
        """Puts an event behind the held ones, with what is to be recorded beside it."""
        event = self._with_pending(event)
        self.size.add(event, check_storable(event, event.author))
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
        said = [step for step in event.actions.steps if step.says]
        self.steps |= {step.key: step for step in said}  # though whoever says it may be cancelled while it is stored
        self.once_events |= {step.key: event for step in said}
        return event

    def _with_before(self, event: Event) -> Event:
        """The event with what keys held before, if the turn may be taken up behind it. Each key is told of once: a checkpoint
        after each of a thousand tasks would else tell of all.
        """
        actions = event.actions
        self._records_before = self._records_before or actions.awaits is not None or actions.checkpoint
        if not self._records_before or not self._before:
            return event
        before, self._before = self._before, {}
        return event.model_copy(update={"actions": actions.model_copy(update={"state_before": before})})

    def keep_temporary(self, delta: Mapping[str, JsonValue]) -> None:
        """Keeps the `temp:` keys of a delta for the rest of this invocation."""
        self.temp |= {key: value for key, value in delta.items() if key.startswith(TEMP_PREFIX)}

    def _with_pending(self, event: Event) -> Event:
        pending, self._pending = self._pending, {}
        if not pending:
            return event
        pending["steps"] = (*pending.get("steps", ()), *event.actions.steps)
        return event.model_copy(update={"actions": event.actions.model_copy(update=pending)})

    def buffer_pending(self, bare: Event) -> None:
        """Holds the bare event if there is something to be recorded beside it."""
        if self._pending:
            self.buffer(bare)

    def stop(self, end: End) -> None:
        """Nobody hands the floor on any more: whoever gets it is told why, and the invocation ends so."""
        self.stopped = end
        self.notice = f"Hand-overs were stopped ({end.reason}): {end.detail} Answer yourself, as well as you can."

    async def show(self, event: Event) -> None:
        """Passes a partial event on, if the caller wants partials: as much of it as guardrails will not change any more."""
        if not self.config.streaming:
            return
        shown = await self._stream_guard.released(event) if self.runtime.guardrails else event
        if shown is not None:
            self._recorder.show(shown)


def record_answer_decision(invocation: InvocationState, selection: Selection, bare: Event) -> None:
    """Records a decision on the answer that ends a turn: with its last event as long as that is held, else with `bare`."""
    last = invocation._buffered[-1] if invocation._buffered else None
    if last is None or last.author != bare.author or last.error or last.actions.selection:
        invocation.buffer(with_actions(bare, selection=selection))
    else:
        invocation._buffered[-1] = with_actions(last, selection=selection)


def is_long(event: Event) -> bool:
    """Whether the event's text is looked through in a thread: that takes microseconds a character, and others wait."""
    return len(event.text) > _LONG_TEXT


def _handoff_refused(handoff: Handoff, problem: str, *, allowed: tuple[str, ...] = ()) -> TransferRefused:
    return TransferRefused(f"{handoff.by!r} cannot hand over to {handoff.target!r}: {problem}", allowed=allowed)


def _without_unknown_next(event: Event, tree: AgentTree) -> Event:
    """The event with an empty name in place of one that no agent has: a tag hides its name from guardrails."""
    named = event.actions.next
    if not named or can_name(named, (card.name for card in tree)):
        return event
    return event.model_copy(update={"actions": event.actions.model_copy(update={"next": ""})})


def _without_tag(event: Event) -> Event:
    """The event with its first `<next>` tag taken out of the text and kept as `actions.next` (behaviour B6)."""
    if event.content is None or "<next>" not in event.text:
        return event
    parts, first = [], None
    for part in event.content.parts:
        if isinstance(part, TextPart):
            text, name = take_next(part.text)
            part = part.model_copy(update={"text": text})  # noqa: PLW2901
            first = name if first is None else first
        parts.append(part)
    if first is None:
        return event
    content = event.content.model_copy(update={"parts": tuple(parts)})
    return event.model_copy(update={"content": content, "actions": event.actions.model_copy(update={"next": first})})
