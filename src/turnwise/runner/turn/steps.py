"""Work that is done once: recorded when it is done, and found on record when its turn is run again."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import Event, StepRecord
from turnwise.ports.context import Show
from turnwise.runner.record.journal import StepScope, event_fields, step_scope
from turnwise.runner.turn.emitter import EventEmitter
from turnwise.runner.turn.pending_writes import PendingWrites, collect_writes
from turnwise.runner.turn.state import InvocationState
from turnwise.runner.turn.views import as_json


class Keys:
    """The keys of a run's steps that are on record (`AgentContext.recorded`)."""

    def __init__(self, floor: InvocationState, branch: str) -> None:
        self._floor, self._branch = floor, branch

    def __contains__(self, key: object) -> bool:
        return f"{self._branch}:{key}" in self._floor.steps


class Steps:
    """The steps of one agent run on one branch."""

    def __init__(self, floor: InvocationState, branch: str, voice: EventEmitter, writes: PendingWrites) -> None:
        self._floor, self._branch, self._voice, self._writes = floor, branch, voice, writes
        self._said: dict[str, Event] = {}
        self._met: set[str] = set()
        self.keys = Keys(floor, branch)

    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        """What `work` gives, or gave (`AgentContext.step`)."""
        place = f"{self._branch}:{key}"
        known = self._known(place)
        spot = StepScope(self._branch, place)
        if known is not None:
            self._floor.replay.leave(spot)
            return known.value
        await self._floor.recorder.confirm()
        with collect_writes() as wrote, step_scope(spot):
            made = work()
            given = await made if isawaitable(made) else made
        event, call = self._voice.event(), None
        self._floor.size.check_value(event.author, given.result if isinstance(given, ToolResultPart) else given)
        if isinstance(given, ToolResultPart):
            call = given.call_id
            event, given = await self._judged(event, given)
        value = as_json(f"The result of step {key!r}", given)
        record = StepRecord(key=place, value=value, call=call, state_delta=wrote.state, artifact_versions=wrote.saved)
        self._floor.steps[place] = record
        await self._floor.emit(_with(event, record))
        return value

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """What is said once (`AgentContext.once`)."""
        place = f"{self._branch}:{key}"
        known = self._known(place)
        if known is None:
            said = await self._say(place, make)
        elif recorded := self._said.get(place) or self._floor.spoken.get(place):
            said = self._voice.find(recorded)
        else:
            again = self._voice.event().model_copy(update=event_fields(known.value))
            said = await self._voice.say(_with(again, known.model_copy(update={"value": None})))
        self._said[place] = said
        return said

    async def _say(self, place: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        await self._floor.recorder.confirm()
        self._voice.begin()
        with collect_writes() as wrote:
            made = await make(self._voice.show)
        record = StepRecord(key=place, says=True, state_delta=wrote.state, artifact_versions=wrote.saved)
        # Without a content it would be an event that says nothing, and such are not looked for.
        said = await self._voice.say_own(_with(made.model_copy(update={"content": made.content or Content()}), record))
        self._floor.steps[place] = record
        return said

    async def _judged(self, event: Event, part: ToolResultPart) -> tuple[Event, dict[str, Any]]:
        """What guardrails leave of a result, and the event that records it and what they did."""
        said = await self._floor.guarding.event(event.model_copy(update={"content": Content(parts=(part,))}))
        left = (said.content or Content()).tool_results[0]
        return said.model_copy(update={"content": None}), {"result": left.result, "failed": left.failed}

    def _known(self, place: str) -> StepRecord | None:
        known = self._floor.steps.get(place)
        if known is not None and place not in self._met:
            if place in self._floor.journal.carried:
                self._writes.again(known)
            else:
                self._writes.reread(known)
        self._met.add(place)
        return known


def _with(event: Event, record: StepRecord) -> Event:
    return event.model_copy(update={"actions": event.actions.model_copy(update={"steps": (record,)})})
