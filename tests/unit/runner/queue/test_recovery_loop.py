"""Which due sessions are announced to an engine, and which a process takes up itself."""

from turnwise.facts.sessions import SessionKey
from turnwise.runner.queue.recovery_loop import PATIENCE_SECONDS, REPEAT_SECONDS, DueSessions

ONE, TWO = (SessionKey("app", "ann", name) for name in ("s-1", "s-2"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_session_that_stays_due_is_announced_again_after_a_while() -> None:
    clock = Clock()
    due = DueSessions(clock)
    assert due.to_announce([ONE]) == [ONE]
    clock.now += 1
    assert due.to_announce([ONE, TWO]) == [TWO]
    clock.now += REPEAT_SECONDS - 1
    assert due.to_announce([ONE, TWO]) == [ONE]


def test_a_session_is_overdue_when_the_engine_did_not_come_for_a_while() -> None:
    clock = Clock()
    due = DueSessions(clock)
    due.to_announce([ONE])
    assert due.overdue([ONE]) == []
    clock.now += PATIENCE_SECONDS
    due.to_announce([ONE, TWO])
    assert due.overdue([ONE, TWO]) == [ONE]


def test_a_session_that_was_worked_off_meanwhile_is_due_anew() -> None:
    clock = Clock()
    due = DueSessions(clock)
    due.to_announce([ONE])
    clock.now += PATIENCE_SECONDS
    due.to_announce([])
    due.to_announce([ONE])
    assert due.overdue([ONE]) == []
