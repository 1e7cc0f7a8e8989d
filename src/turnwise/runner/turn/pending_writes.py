"""What an agent run writes to the state and saves as artifacts, until an event holds it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.events import StepRecord
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.runner.record.journal import Replay, StepScope, current_scope


class PendingWrite(NamedTuple):
    """What one piece of work wrote: state by key, `temp:` keys aside, and versions of artifacts by name."""

    state: dict[str, JsonValue]
    saved: dict[str, int]


_COLLECTORS: ContextVar[tuple[PendingWrite, ...]] = ContextVar("turnwise_at_work", default=())


class PendingWrites:
    """What one agent run wrote since its last event. What stands in `state`, `saved` and `steps` goes with the next one.

    What is written on a spot whose recorded events the run has yet to come to is on record with them: it is only read. So is
    what an event of the run holds that says nothing.
    """

    def __init__(self, branch: str, replay: Replay) -> None:
        self.state: dict[str, JsonValue] = {}
        self.saved: dict[str, int] = {}
        self.steps: tuple[StepRecord, ...] = ()
        self._branch, self._replay = branch, replay
        self._recorded: dict[StepScope, dict[str, JsonValue]] = {}

    def __bool__(self) -> bool:
        return bool(self.state or self.saved)

    def write(self, key: str, value: JsonValue) -> None:
        """Sets a key of the state; None removes it."""
        scope = current_scope(self._branch)
        if self._replay.consume_write(self._branch, key, value):
            self.state.pop(key, None)
            self._recorded.get(scope, {}).pop(key, None)
        else:
            written = self._recorded.setdefault(scope, {}) if self._replay.has(scope) else self.state
            written[key] = value
        if not key.startswith(TEMP_PREFIX):
            for collector in _COLLECTORS.get():
                collector.state[key] = value

    def record_artifact(self, name: str, version: int) -> None:
        """An artifact was saved."""
        if not self._replay.has(current_scope(self._branch)):
            self.saved[name] = version
        for collector in _COLLECTORS.get():
            collector.saved[name] = version

    def redo(self, step: StepRecord) -> None:
        """Writes what work wrote that is not done again, and is nowhere on record but with its step. What comes to hold it
        holds the step, too: then it is on record, and no later attempt writes it over what is newer.
        """
        self.state.update(step.state_delta)
        self.saved.update(step.artifact_versions)
        if not step.says and (step.state_delta or step.artifact_versions):
            self.steps += (step,)
        for collector in _COLLECTORS.get():
            collector.state.update(step.state_delta)
            collector.saved.update(step.artifact_versions)

    def restore(self, step: StepRecord) -> None:
        """What work wrote that is not done again, and is on record: it is read as it was, until the run comes to the event
        that holds it.
        """
        scope = current_scope(self._branch)
        for key, value in step.state_delta.items():
            if self._replay.consume_write(self._branch, key, value):
                continue
            if self._replay.has(scope):
                self._recorded.setdefault(scope, {})[key] = value
            else:
                self._replay.apply_write(key, value)
        for collector in _COLLECTORS.get():
            collector.state.update(step.state_delta)
            collector.saved.update(step.artifact_versions)

    def merged(self) -> dict[str, JsonValue]:
        """All that was written, as whoever reads the state sees it."""
        return {key: value for written in (*self._recorded.values(), self.state) for key, value in written.items()}

    def take_recorded(self) -> Mapping[str, JsonValue]:
        """The run came to the recorded event that holds what was written on its spot: gives that, and forgets it."""
        return self._recorded.pop(current_scope(self._branch), {})

    def clear(self) -> None:
        """An event holds it now."""
        self.state.clear()
        self.saved.clear()
        self.steps = ()


@contextmanager
def collect_writes() -> Iterator[PendingWrite]:
    """What is written by whoever works inside, whichever events come to hold it meanwhile, and whoever else is at work."""
    collector = PendingWrite({}, {})
    token = _COLLECTORS.set((*_COLLECTORS.get(), collector))
    try:
        yield collector
    finally:
        _COLLECTORS.reset(token)


class UnrecordedWrites:
    """What the runs that go on wrote, and did not say yet."""

    def __init__(self) -> None:
        self._runs: list[Callable[[], None]] = []

    @contextmanager
    def track(self, buffer: Callable[[], None]) -> Iterator[None]:
        """While a run goes on: `hold` puts what it wrote behind what is to be stored."""
        self._runs.append(buffer)
        try:
            yield
        finally:
            self._runs.remove(buffer)

    def buffer(self) -> None:
        """Puts it all there, so that it is stored with whatever comes next."""
        for buffer in self._runs:
            buffer()
