"""A turn that is taken up again, as far as it is on record: its events in order, and the state as it was at each."""

from collections import deque
from collections.abc import Mapping

from pydantic import JsonValue

from turnwise.facts.events import Await, Event
from turnwise.runner.journal import Journal


class Replay:
    """The recorded events that the agent runs of one turn have yet to come to.

    While there are any, state reads as it was then: an agent that decides by what it finds in the state decides as it did,
    and comes to the same questions.
    """

    def __init__(self, journal: Journal, turn: int) -> None:
        self._left: dict[str, deque[Event]] = {}
        self._state: dict[str, JsonValue] = {**journal.state_before, **journal.silent}
        for branch, said in journal.said.items():
            if _belongs(branch, turn) and not _is_over(branch, journal.finished):
                self._left[branch] = deque(said)
            else:
                for event in said:
                    self._state |= event.actions.state_delta
        self._count = sum(len(events) for events in self._left.values())

    def has(self, branch: str) -> bool:
        """Whether the run on that branch has recorded events before it."""
        return bool(self._left.get(branch))

    def take(self, branch: str) -> Event:
        """The next recorded event of that branch's run; ask `has` first."""
        event = self._left[branch].popleft()
        self._count -= 1
        self._state |= event.actions.state_delta
        return event

    def next_wait(self, branch: str) -> Await | None:
        """The next recorded question of that branch's run, past whatever it said before; None when there is none."""
        while self.has(branch):
            wait = self.take(branch).actions.awaits
            if wait is not None:
                return wait
        return None

    def state(self, now: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The state that agents see, of the state as it is now; None values are absent keys."""
        return {**now, **self._state} if self._count else dict(now)


def _belongs(branch: str, turn: int) -> bool:
    return branch.partition("/")[0] == str(turn)


def _is_over(branch: str, finished: frozenset[str]) -> bool:
    parts = branch.split("/")
    return any("/".join(parts[:length]) in finished for length in range(1, len(parts) + 1))
