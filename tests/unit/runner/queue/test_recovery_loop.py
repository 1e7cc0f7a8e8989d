"""Which due sessions are announced to an engine, and which a process takes up itself."""

from turnwise.facts.sessions import SessionKey
from turnwise.runner.queue.recovery_loop import PATIENCE_SECONDS, REPEAT_SECONDS, DueSessions

ONE, TWO = (SessionKey("app", "ann", name) for name in ("s-1", "s-2"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_session_that_stays_due_is_announced_again_after_a_while() -> None:
    """Not at once: the process that accepted its message has announced it."""
    clock = Clock()
    due = DueSessions(clock)
    due.note([ONE])
    assert due.to_announce() == []
    clock.now += REPEAT_SECONDS
    due.note([ONE, TWO])
    assert due.to_announce() == [ONE]
    clock.now += REPEAT_SECONDS - 1
    due.note([ONE, TWO])
    assert due.to_announce() == []
    clock.now += 1
    due.note([ONE, TWO])
    assert set(due.to_announce()) == {ONE, TWO}


def test_a_session_is_overdue_when_the_engine_did_not_come_for_a_while() -> None:
    clock = Clock()
    due = DueSessions(clock)
    due.note([ONE])
    assert due.overdue() == []
    clock.now += PATIENCE_SECONDS
    due.note([ONE, TWO])
    assert due.overdue() == [ONE]


def test_a_session_that_was_worked_off_meanwhile_is_due_anew() -> None:
    clock = Clock()
    due = DueSessions(clock)
    due.note([ONE])
    clock.now += PATIENCE_SECONDS
    due.note([])
    due.note([ONE])
    assert due.overdue() == []


def test_of_more_sessions_than_one_round_reads_all_are_overdue() -> None:
    """Each round reads others, so nobody sees one of them twice."""
    due = DueSessions(Clock())
    due.note([ONE], is_cut=True)
    assert due.overdue() == [ONE]
    assert due.to_announce() == [ONE]
    due.note([ONE], is_cut=True)
    assert due.to_announce() == [], "it was announced a moment ago"
