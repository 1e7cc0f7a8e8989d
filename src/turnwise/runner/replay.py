"""A turn that is taken up again, as far as it is on record: its events in order, and the state as it was at each."""

from collections import deque
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from turnwise.facts.events import Await, Event
from turnwise.runner.journal import Journal
from turnwise.runner.spots import Spot


class Replay:
    """The recorded events that the agent runs of one turn have yet to come to, by the spot where they were said: what is done
    side by side need not come to them in the same order.

    While there are any, state reads as it was then: an agent that decides by what it finds in the state decides as it did,
    and comes to the same questions.
    """

    def __init__(self, journal: Journal, turn: int) -> None:
        self._left: dict[Spot, deque[Event]] = {}
        self._state: dict[str, JsonValue] = {**journal.state_before, **journal.silent}
        for branch, said in journal.said.items():
            if _belongs(branch, turn) and not _is_over(branch, journal.finished):
                for event in said:
                    self._left.setdefault(Spot(branch, event.within), deque()).append(event)
            else:
                for event in said:
                    self._state |= event.actions.state_delta
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

    def state(self, now: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The state that agents see, of the state as it is now; None values are absent keys."""
        return {**now, **self._state} if self._count else dict(now)

    def _pass(self, spot: Spot, reached: Callable[[Event], bool]) -> bool:
        if not any(reached(event) for event in self._left.get(spot, ())):
            return False
        while not reached(self.take(spot)):
            continue
        return True


def _belongs(branch: str, turn: int) -> bool:
    return branch.partition("/")[0] == str(turn)


def _is_over(branch: str, finished: frozenset[str]) -> bool:
    parts = branch.split("/")
    return any("/".join(parts[:length]) in finished for length in range(1, len(parts) + 1))
