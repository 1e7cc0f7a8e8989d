"""A turn that is taken up again, as far as it is on record: its events in order, and the state as it was at each."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.events import Await, Event
from turnwise.runner.record.journal import Journal
from turnwise.runner.record.spots import Spot


class _Write(NamedTuple):
    """What an event wrote to the state."""

    sequence: int
    key: str
    value: JsonValue


class Replay:
    """The recorded events that the agent runs of one turn have yet to come to, by the spot where they were said: what is done
    side by side need not come to them in the same order.

    While there are any, state reads as it was then: an agent that decides by what it finds in the state decides as it did,
    and comes to the same questions. What a run wrote and did not say stands in events that say nothing: they are passed when
    the run writes that again. What a run wrote that is over is passed when whoever called it comes to it.
    """

    def __init__(self, journal: Journal, turn: int) -> None:
        self._left: dict[Spot, deque[Event]] = {}
        self._unsaid: dict[str, list[_Write]] = {}
        self._over: dict[str, list[_Write]] = {}
        self._state: dict[str, JsonValue] = dict(journal.state_before)
        behind: list[_Write] = []
        silent = {event.id for event in journal.silent}
        for event in (*(event for said in journal.said.values() for event in said), *journal.silent):
            over = _over(event.branch, journal.finished)
            if not _belongs(event.branch, turn):
                behind += _writes(event)
            elif over:
                self._over.setdefault(over, []).extend(_writes(event))
            elif event.id in silent:
                self._unsaid.setdefault(event.branch, []).extend(_writes(event))
            else:
                self._left.setdefault(Spot(event.branch, event.within), deque()).append(event)
        self._pass_writes(behind)
        self._count = sum(len(events) for events in self._left.values())

    def has(self, spot: Spot) -> bool:
        """Whether the run has recorded events before it there."""
        return bool(self._left.get(spot))

    def take(self, spot: Spot) -> Event:
        """The next recorded event there; ask `has` first."""
        event = self._left[spot].popleft()
        self._count -= 1
        self._state |= event.actions.state_delta
        return event

    def next_question(self, spot: Spot) -> Await | None:
        """The next recorded question there, past whatever came before; None when there is none.

        Waits that are stated without a word, or are part of what was said once, are found by their ids.
        """
        while self.has(spot):
            event = self.take(spot)
            once = any(step.says for step in event.actions.steps)
            if event.actions.awaits is not None and event.content is not None and not once:
                return event.actions.awaits
        return None

    def pass_wait(self, spot: Spot, id_: str) -> bool:
        """The run came to the wait of that id there, past whatever came before; False when it was past it already."""
        return self._pass(spot, lambda event: event.actions.awaits is not None and event.actions.awaits.id == id_)

    def pass_event(self, spot: Spot, id_: str) -> bool:
        """The run came to the event of that id, as `pass_wait`."""
        return self._pass(spot, lambda event: event.id == id_)

    def leave(self, spot: Spot) -> None:
        """The run does there what it never did before: whatever is left there is behind it. Outside of steps, all of it is."""
        for other in self._left:
            if other == spot or (not spot.step and other.branch == spot.branch):
                while self.has(other):
                    self.take(other)

    def wrote(self, branch: str, key: str, value: JsonValue) -> bool:
        """Whether what the run on that branch writes is on record in an event that says nothing; then it came to that."""
        left = self._unsaid.get(branch, [])
        found = next((each for each in left if (each.key, each.value) == (key, value)), None)
        if found is None:
            return False
        left[:] = [each for each in left if each.key != key or each.sequence > found.sequence]
        if not left:
            del self._unsaid[branch]
        self._state[key] = value
        return True

    def reread(self, key: str, value: JsonValue) -> None:
        """The run came to work that is done, and wrote that."""
        self._state[key] = value

    def come_to(self, branch: str) -> None:
        """Who called the run on that branch, which is over, came to it."""
        self._pass_writes(self._over.pop(branch, []))

    def goes_on(self, branch: str) -> None:
        """Something new comes of that branch: what it and those above it wrote without a word is behind them, and so is whom
        they called that is over.
        """
        if not self._unsaid and not self._over:
            return
        here = f"{branch}/"
        passed = [write for run in [r for r in self._unsaid if here.startswith(f"{r}/")] for write in self._unsaid.pop(run)]
        for called in [each for each in self._over if here.startswith(f"{each.rpartition('/')[0]}/")]:
            passed += self._over.pop(called)
        self._pass_writes(passed)

    def state(self, now: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The state that agents see, of the state as it is now; None values are absent keys."""
        return {**now, **self._state} if self._count or self._unsaid or self._over else dict(now)

    def _pass_writes(self, writes: list["_Write"]) -> None:
        for write in sorted(writes, key=lambda write: write.sequence):
            self._state[write.key] = write.value

    def _pass(self, spot: Spot, reached: Callable[[Event], bool]) -> bool:
        if not any(reached(event) for event in self._left.get(spot, ())):
            return False
        while not reached(self.take(spot)):
            continue
        return True


def _belongs(branch: str, turn: int) -> bool:
    return branch.partition("/")[0] == str(turn)


def _over(branch: str, finished: frozenset[str]) -> str:
    """The topmost run on that branch and above it that is over; empty when all go on."""
    parts = branch.split("/")
    runs = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((run for run in runs if run in finished), "")


def _writes(event: Event) -> list[_Write]:
    return [_Write(event.sequence or 0, key, value) for key, value in event.actions.state_delta.items()]
