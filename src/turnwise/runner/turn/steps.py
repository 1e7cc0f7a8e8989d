"""Steps: work that is recorded once and read from the record when its turn runs again."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import Branch, Event, StepRecord
from turnwise.ports.context import Show
from turnwise.runner.record.journal import StepScope, step_scope, with_step_value
from turnwise.runner.turn.answer_limits import as_json
from turnwise.runner.turn.emitter import EventEmitter
from turnwise.runner.turn.pending_writes import PendingWrite, PendingWrites, collect_writes
from turnwise.runner.turn.state import InvocationState


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
