"""When a flow's run is over (behaviour D11)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.tasks import Graph, Status, Task, TaskEnd, initial_progress, with_task_ended
from turnwise.flows.until import AllComplete, AnyComplete, AnyFailed, MaxModelCalls, MaxTurns, RunCounts, Until

A = Task("a")
GRAPH = Graph("pair", [A, Task("b"), Task("c", depends_on=["a"])])


def standing(turns: int = 0, model_calls: int = 0, **ends: Status) -> RunCounts:
    progress = initial_progress(GRAPH)
    for task, status in ends.items():
        progress = with_task_ended(GRAPH, progress, TaskEnd(task=task, status=status, by="worker"))
    return RunCounts(GRAPH, progress, turns, model_calls)


NOTHING = standing()
A_DONE = standing(a=Status.SUCCESSFUL)
A_FAILED = standing(a=Status.FAILED)
ALL_DONE = standing(a=Status.SUCCESSFUL, b=Status.SUCCESSFUL, c=Status.SUCCESSFUL)
ALL_ENDED = standing(a=Status.FAILED, b=Status.SUCCESSFUL)


@pytest.mark.parametrize(
    ("until", "where", "reason"),
    [
        (AllComplete(), NOTHING, None),
        (AllComplete(), A_DONE, None),
        (AllComplete(), ALL_DONE, "complete"),
        (AllComplete(), ALL_ENDED, "complete"),
        (AnyComplete(), NOTHING, None),
        (AnyComplete(), A_DONE, "complete"),
        (AnyComplete(), A_FAILED, "complete"),
        (AnyComplete("b"), A_DONE, None),
        (AnyComplete("b", A), A_DONE, "complete"),
        (AnyFailed(), A_DONE, None),
        (AnyFailed(), A_FAILED, "failed"),
        (AnyFailed("c"), A_FAILED, None),  # it was skipped
        (AnyFailed(A, "b"), A_FAILED, "failed"),
        (AnyComplete(at_least=2), A_DONE, None),
        (AnyComplete(at_least=2), ALL_ENDED, "complete"),
        (AnyComplete("a", "c", at_least=2), ALL_DONE, "complete"),
        (AnyFailed(at_least=2), ALL_ENDED, None),
        (AnyFailed(at_least=2), standing(a=Status.FAILED, b=Status.FAILED), "failed"),
        (MaxTurns(2), standing(turns=1), None),
        (MaxTurns(2), standing(turns=2), "limit:turns"),
        (MaxModelCalls(5), standing(model_calls=4), None),
        (MaxModelCalls(5), standing(model_calls=6), "limit:model_calls"),
    ],
)
def test_each_condition(until: Until, where: RunCounts, reason: str | None) -> None:
    assert until.met(where) == reason


def test_one_of_two_says_what_the_first_that_is_met_says() -> None:
    until = AllComplete() | MaxTurns(2) | AnyFailed()
    assert until.met(NOTHING) is None
    assert until.met(A_FAILED) == "failed"
    assert until.met(A_FAILED._replace(turns=2)) == "limit:turns"
    assert until.met(ALL_DONE._replace(turns=2)) == "complete"


def test_both_of_two_say_what_both_say() -> None:
    assert (AnyComplete("a") & AnyComplete("b")).met(A_DONE) is None
    assert (AnyComplete("a") & AnyComplete("b")).met(ALL_DONE) == "complete"
    assert (AnyComplete("a") & MaxTurns(2)).met(A_DONE._replace(turns=2)) == "until"
    assert (AnyComplete("a") & MaxTurns(2)).met(standing(turns=2)) is None


@pytest.mark.parametrize("make", [MaxTurns, MaxModelCalls])
@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_is_one_or_more(make: Any, most: int) -> None:
    with pytest.raises(FlowDefinitionError, match=f"{make.__name__}: its number is {most}.*1 or more"):
        make(most)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: MaxTurns("3"), "MaxTurns: its number is a str"),  # type: ignore[arg-type]
        (lambda: AnyFailed(3), "AnyFailed: an int is no task. Give tasks, or their names"),  # type: ignore[arg-type]
        (lambda: AnyComplete(["a"]), "AnyComplete: a list is no task"),  # type: ignore[arg-type]
        (lambda: AnyComplete("a", at_least=0), "AnyComplete: at_least is 0. Use 1 or more"),
        (lambda: AnyFailed(at_least=True), "AnyFailed: at_least is a bool"),
        (lambda: AnyFailed() | "a", r"AnyFailed\(\): what it is joined with is a str"),  # type: ignore[operator]
        (lambda: AnyFailed() & AllComplete, r"joined with is the class AllComplete. Make one of it"),  # type: ignore[operator]
    ],
)
def test_what_no_condition_is_made_of_is_refused(make: Callable[[], Until], told: str) -> None:
    with pytest.raises(FlowDefinitionError, match=told):
        make()


def test_tasks_that_are_not_there_are_found_wherever_they_are_named() -> None:
    until = AllComplete() | (AnyComplete("a") & AnyFailed("b", "bb")) | MaxTurns(3)
    assert until.tasks == ("a", "b", "bb")
    with pytest.raises(FlowDefinitionError, match="'pair' has no task 'bb'"):
        until.check(GRAPH)
    (AllComplete() | AnyFailed(A)).check(GRAPH)


def test_a_condition_reads_as_it_was_written() -> None:
    until = (AllComplete() | AnyComplete("a", A)) & (MaxTurns(3) | MaxModelCalls(9) | AnyFailed())
    assert repr(until) == "((AllComplete() | AnyComplete('a', 'a')) & ((MaxTurns(3) | MaxModelCalls(9)) | AnyFailed()))"
    assert repr(AnyComplete("a", "b", at_least=2) & AnyFailed(at_least=3)) == (
        "(AnyComplete('a', 'b', at_least=2) & AnyFailed(at_least=3))"
    )


CONDITIONS = st.sampled_from([AllComplete(), AnyComplete(), AnyComplete("b"), AnyFailed(), MaxTurns(2), MaxModelCalls(2)])
STANDINGS = st.builds(
    lambda turns, calls, ends: standing(turns, calls, **ends),
    st.integers(0, 4),
    st.integers(0, 4),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([Status.SUCCESSFUL, Status.FAILED])),
)


@given(CONDITIONS, CONDITIONS, CONDITIONS, STANDINGS)
def test_whether_a_condition_is_met_follows_logic(one: Until, two: Until, three: Until, where: RunCounts) -> None:
    def met(until: Until) -> bool:
        return until.met(where) is not None

    assert met(one | two) == (met(one) or met(two))
    assert met(one & two) == (met(one) and met(two))
    assert (one | (two | three)).met(where) == ((one | two) | three).met(where)
    assert met(one & (two | three)) == met((one & two) | (one & three))
