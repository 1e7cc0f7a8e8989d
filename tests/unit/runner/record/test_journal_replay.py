"""Where in a turn something is said, and what a turn that is taken up again finds there (A42)."""

import asyncio
from datetime import UTC, datetime

from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Await, Branch, Event
from turnwise.runner.record.journal import Replay, StepScope, current_scope, journal_of, step_scope
from turnwise.tools.event_loop import in_thread

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAIN, PAY, SHIP = StepScope(Branch("1")), StepScope(Branch("1"), "1:pay"), StepScope(Branch("1"), "1:ship")


def said(text: str, scope: StepScope, wait: str | None = None) -> Event:
    return Event(
        id=text,
        author="a",
        invocation_id="i",
        created_at=NOW,
        branch=scope.branch,
        within=scope.step,
        content=text_content(text),
        actions=Actions(awaits=Await(id=wait) if wait else None, state_delta={text: 1}),
    )


async def test_whoever_works_in_a_step_is_there_in_every_thread_and_task() -> None:
    async def where() -> StepScope:
        return current_scope(Branch("1"))

    assert current_scope(Branch("1")) == MAIN
    with step_scope(PAY):
        with step_scope(StepScope(Branch("1/>b#1"), "1/>b#1:look")):
            assert list(await asyncio.gather(where(), in_thread(current_scope, "1"))) == [PAY, PAY]
            with step_scope(SHIP):
                assert current_scope(Branch("1")) == SHIP
        assert (current_scope(Branch("1")), current_scope(Branch("1/>b#1"))) == (PAY, StepScope(Branch("1/>b#1")))
    assert current_scope(Branch("1")) == MAIN


def replay() -> Replay:
    events = [said("hello", MAIN), said("pay?", PAY, "p"), said("ship?", SHIP, "s"), said("told", MAIN)]
    return Replay(journal_of(events), 1)


def test_each_spot_has_its_own_questions_whichever_is_come_to_first() -> None:
    """A42."""
    again = replay()
    found = [again.next_question(scope) for scope in (SHIP, PAY, MAIN)]
    assert [wait.id if wait else None for wait in found] == ["s", "p", None]
    assert not any(again.has(scope) for scope in (MAIN, PAY, SHIP))
    assert again.state({}) == {}


def test_what_is_left_in_a_step_is_behind_the_run_with_the_step_or_with_what_is_new_outside() -> None:
    """State reads as it was until the run has come past everything."""
    again = replay()
    again.skip_all(PAY)
    assert [again.has(scope) for scope in (MAIN, PAY, SHIP)] == [True, False, True]
    assert again.state({}) == {"pay?": 1}
    again.skip_all(MAIN)
    assert [again.has(scope) for scope in (MAIN, PAY, SHIP)] == [False, False, False]
