"""What an agent run writes to the state and saves as artifacts, until an event holds it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.sessions import TEMP_PREFIX


class Note(NamedTuple):
    """What one piece of work wrote: state by key, `temp:` keys aside, and versions of artifacts by name."""

    state: dict[str, JsonValue]
    saved: dict[str, int]


_AT_WORK: ContextVar[tuple[Note, ...]] = ContextVar("turnwise_at_work", default=())


class Writes:
    """What one agent run wrote since its last event. What stands in `state` and `saved` goes with the next one."""

    def __init__(self) -> None:
        self.state: dict[str, JsonValue] = {}
        self.saved: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.state or self.saved)

    def write(self, key: str, value: JsonValue) -> None:
        """Sets a key of the state; None removes it."""
        self.state[key] = value
        if not key.startswith(TEMP_PREFIX):
            for note in _AT_WORK.get():
                note.state[key] = value

    def save(self, name: str, version: int) -> None:
        """An artifact was saved."""
        self.saved[name] = version
        for note in _AT_WORK.get():
            note.saved[name] = version

    def again(self, state: Mapping[str, JsonValue], saved: Mapping[str, int]) -> None:
        """Writes what work wrote that is not done again."""
        for key, value in state.items():
            self.write(key, value)
        for name, version in saved.items():
            self.save(name, version)

    def clear(self) -> None:
        """An event holds it now."""
        self.state.clear()
        self.saved.clear()


@contextmanager
def noted() -> Iterator[Note]:
    """What is written by whoever works inside, whichever events come to hold it meanwhile, and whoever else is at work."""
    note = Note({}, {})
    token = _AT_WORK.set((*_AT_WORK.get(), note))
    try:
        yield note
    finally:
        _AT_WORK.reset(token)
