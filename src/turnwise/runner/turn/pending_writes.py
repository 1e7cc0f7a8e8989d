"""State and artifact writes of an agent run that no event holds yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.events import Branch, StepRecord
from turnwise.facts.memory import MemoryEntry
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.runner.record.journal import Replay, StepScope, current_scope


class PendingWrite(NamedTuple):
    """The writes of one step."""

    state: dict[str, JsonValue]
    """Values by key, without `temp:` keys."""
    saved: dict[str, int]
    """Artifact versions by name."""
    remembered: dict[str, MemoryEntry]
    """Entries by id, without their texts."""
    recalled: set[str]
    """The ids of the entries that were read."""


_COLLECTORS: ContextVar[tuple[PendingWrite, ...]] = ContextVar("turnwise_at_work", default=())


class PendingWrites:
    """The writes of one agent run since its last event. The run's next event gets them.

    During a replay, writes in a scope with remaining recorded events are already in the log. They are then only readable,
    and are not stored again. The same holds for writes in recorded events without content.
    """

    def __init__(self, branch: Branch, replay: Replay) -> None:
        self.state: dict[str, JsonValue] = {}
        self.saved: dict[str, int] = {}
        self.remembered: dict[str, MemoryEntry] = {}
        self.steps: tuple[StepRecord, ...] = ()
        self._branch, self._replay = branch, replay
        self._recorded: dict[StepScope, dict[str, JsonValue]] = {}

    def __bool__(self) -> bool:
        return bool(self.state or self.saved or self.remembered)

    def write(self, key: str, value: JsonValue) -> None:
        """Sets a key of the state. None removes the key."""
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
        """Records that an artifact version was saved."""
        if not self._replay.has(current_scope(self._branch)):
            self.saved[name] = version
        for collector in _COLLECTORS.get():
            collector.saved[name] = version

    def remember(self, entry: MemoryEntry) -> None:
        """Adds an entry for the memory."""
        self.remembered[entry.id] = entry
        for collector in _COLLECTORS.get():
            collector.remembered[entry.id] = without_text(entry)

    def take_remembered(self, ids: Iterable[str]) -> tuple[MemoryEntry, ...]:
        """Returns and clears those of these entries that no event holds yet."""
        return tuple(self.remembered.pop(id_) for id_ in ids if id_ in self.remembered)

    def redo(self, step: StepRecord) -> None:
        """Applies the writes of a recorded step after its event was taken back, so that the next event stores them.

        The step is stored with them, so no later attempt overwrites newer values.
        """
        self.state.update(step.state_delta)
        self.saved.update(step.artifact_versions)
        # Without texts: the store has them, unless they were forgotten since.
        self.remembered.update((entry.id, entry) for entry in step.remembered)
        if not step.says and (step.state_delta or step.artifact_versions or step.remembered):
            self.steps += (step,)
        _collect(step)

    def restore(self, step: StepRecord) -> None:
        """Applies the writes of a recorded step that are already in the log. They are readable and are not stored again."""
        scope = current_scope(self._branch)
        for key, value in step.state_delta.items():
            if self._replay.consume_write(self._branch, key, value):
                continue
            if self._replay.has(scope):
                self._recorded.setdefault(scope, {})[key] = value
            else:
                self._replay.apply_write(key, value)
        _collect(step)

    def merged(self) -> dict[str, JsonValue]:
        """Returns all pending and replayed writes, as readers of the state see them."""
        return {key: value for written in (*self._recorded.values(), self.state) for key, value in written.items()}

    def take_recorded(self) -> Mapping[str, JsonValue]:
        """Returns and clears the replayed writes of the current scope: the recorded event that holds them was reached."""
        return self._recorded.pop(current_scope(self._branch), {})

    def clear(self) -> None:
        """Clears the pending writes after an event has taken them."""
        self.state.clear()
        self.saved.clear()
        self.remembered.clear()
        self.steps = ()


def without_text(entry: MemoryEntry) -> MemoryEntry:
    """Returns the entry as the log holds it."""
    return entry.replace(text="", entity=None, agent="", roles=())


def note_recalled(ids: Iterable[str]) -> None:
    """Notes that the steps in progress hold the texts of these entries."""
    recalled = set(ids)
    for collector in _COLLECTORS.get():
        collector.recalled.update(recalled)


def _collect(step: StepRecord) -> None:
    for collector in _COLLECTORS.get():
        collector.state.update(step.state_delta)
        collector.saved.update(step.artifact_versions)
        collector.remembered.update((entry.id, entry) for entry in step.remembered)


@contextmanager
def collect_writes() -> Iterator[PendingWrite]:
    """Collects the writes made inside the block by this task and the tasks and threads that it starts."""
    collector = PendingWrite({}, {}, {}, set())
    token = _COLLECTORS.set((*_COLLECTORS.get(), collector))
    try:
        yield collector
    finally:
        _COLLECTORS.reset(token)


class UnrecordedWrites:
    """The pending writes of all agent runs in progress."""

    def __init__(self) -> None:
        self._runs: list[Callable[[], None]] = []

    @contextmanager
    def track(self, buffer: Callable[[], None]) -> Iterator[None]:
        """Registers a run for the duration of the block.

        Args:
            buffer: Buffers the run's pending writes.
        """
        self._runs.append(buffer)
        try:
            yield
        finally:
            self._runs.remove(buffer)

    def buffer(self) -> None:
        """Buffers the pending writes of every run, so that the next append stores them."""
        for buffer in self._runs:
            buffer()
