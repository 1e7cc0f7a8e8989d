"""How far a flow has come: readiness, ends that bring others, and that every flow comes to its end (behaviours D1, D2)."""

from itertools import pairwise
from typing import Any

import pytest
from graph_play import MOST, acyclic
from hypothesis import given, strategies as st
from pydantic import ValidationError

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.tasks import Graph, Progress, Status, Task, TaskEnd, initial_progress, with_task_ended

ENDS = (Status.SUCCESSFUL, Status.FAILED, Status.SKIPPED)


def end(task: str, status: Status = Status.SUCCESSFUL, reason: str = "", **fields: Any) -> TaskEnd:
    return TaskEnd(task=task, status=status, reason=reason, by="worker", turn=3, **fields)


def run(graph: Graph, *task_ends: TaskEnd) -> Progress:
    progress = initial_progress(graph)
    for task_end in task_ends:
        progress = with_task_ended(graph, progress, task_end)
    return progress


def trip() -> Graph:
    """Book after planning, pack after booking; a report comes always; the weather stands alone."""
    return Graph(
        "trip",
        [
            Task("report", depends_on=["pack", "weather"], run_if="always"),
            Task("pack", depends_on=["book"]),
            Task("book", depends_on=["plan"]),
            Task("plan"),
            Task("weather"),
        ],
    )


def test_at_first_what_needs_nothing_is_ready() -> None:
    progress = initial_progress(trip())
    assert progress.ready == ("plan", "weather")
    assert progress.statuses == dict.fromkeys(["report", "pack", "book", "plan", "weather"], Status.PENDING)
    assert progress.task_ends == {}
    assert not progress.is_complete


def test_a_task_is_ready_when_all_its_needs_are_complete() -> None:
    graph = trip()
    progress = run(graph, end("plan", result=7))
    assert progress.ready == ("book", "weather")
    assert progress.task_ends["plan"].result == 7
    progress = run(graph, end("plan"), end("book"), end("pack"))
    assert progress.ready == ("weather",)
    progress = with_task_ended(graph, progress, end("weather"))
    assert progress.ready == ("report",)
    assert with_task_ended(graph, progress, end("report")).is_complete


def test_a_parent_is_ready_when_its_parts_are_complete() -> None:
    """D1"""
    graph = Graph("press", [Task("book"), Task("one", parent="book"), Task("two", parent="book")])
    assert initial_progress(graph).ready == ("one", "two")
    assert run(graph, end("two")).ready == ("one",)
    assert run(graph, end("two"), end("one")).ready == ("book",)


@pytest.mark.parametrize(("status", "words"), [(Status.FAILED, "failed"), (Status.SKIPPED, "was skipped")])
def test_who_needs_what_failed_is_skipped_with_that_reason_unless_it_is_done_always(status: Status, words: str) -> None:
    """D2"""
    graph = trip()
    before = run(graph, end("weather"))
    after = with_task_ended(graph, before, end("plan", status, "No map."))
    assert after.statuses == {
        "plan": status,
        "book": Status.SKIPPED,
        "pack": Status.SKIPPED,
        "weather": Status.SUCCESSFUL,
        "report": Status.PENDING,
    }
    assert after.ready == ("report",)
    reason = f"'plan' {words}: No map."
    assert list(after.task_ends.values())[2:] == [
        TaskEnd(task=name, status=Status.SKIPPED, reason=reason, turn=3) for name in ("book", "pack")
    ]


def test_a_reason_of_no_words() -> None:
    after = run(trip(), end("plan", Status.FAILED))
    assert after.task_ends["pack"].reason == "'plan' failed."


def test_a_task_keeps_its_first_end() -> None:
    graph = trip()
    progress = run(graph, end("plan"))
    assert with_task_ended(graph, progress, end("plan", Status.FAILED)) is progress


def test_the_end_of_a_task_that_is_not_to_be_done_changes_nothing() -> None:
    graph = trip()
    progress = initial_progress(graph, ["weather"])
    assert with_task_ended(graph, progress, end("plan")) is progress
    assert with_task_ended(graph, progress, end("no such task")) is progress


def test_an_end_before_its_needs_is_taken_and_the_task_never_ready_again() -> None:
    graph = trip()
    progress = run(graph, end("book"), end("plan"))
    assert progress.statuses["book"] is Status.SUCCESSFUL
    assert progress.ready == ("pack", "weather")


def test_targets_and_what_they_need_are_all_that_is_there() -> None:
    graph = trip()
    progress = initial_progress(graph, ["book"])
    assert list(progress.statuses) == ["plan", "book"]
    for name in ("plan", "book"):
        assert progress.ready == (name,)
        progress = with_task_ended(graph, progress, end(name))
    assert progress.is_complete
    with pytest.raises(FlowDefinitionError, match="Did you mean 'book'"):
        initial_progress(graph, ["bok"])


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_a_closing_is_of_a_task_that_ended(status: Status) -> None:
    with pytest.raises(ValidationError, match="has not ended"):
        TaskEnd(task="plan", status=status)


def test_a_closing_survives_the_log() -> None:
    task_end = end("plan", Status.FAILED, "No map.", result={"a": [1]})
    assert TaskEnd.model_validate_json(task_end.model_dump_json()) == task_end
    assert TaskEnd.model_validate(task_end.model_dump(mode="json", exclude_defaults=True), strict=False) == task_end


CHOICES = st.lists(st.tuples(st.integers(0, MOST), st.sampled_from(ENDS)), min_size=MOST, max_size=MOST)


@st.composite
def courses(draw: st.DrawFn) -> tuple[Graph, list[Progress]]:
    """A graph, and its progress after each end, until nothing is ready."""
    graph = Graph("any", draw(acyclic()))
    targets = draw(st.none() | st.lists(st.sampled_from(graph.order), min_size=1))
    course = [initial_progress(graph, targets)]
    for choice, status in draw(CHOICES):
        if ready := course[-1].ready:
            course.append(with_task_ended(graph, course[-1], end(ready[choice % len(ready)], status)))
    return graph, course


@given(courses())
def test_ready_is_what_is_pending_with_all_needs_complete_in_order(given: tuple[Graph, list[Progress]]) -> None:
    graph, course = given
    for progress in course:
        pending = [name for name in graph.order if progress.statuses.get(name) is Status.PENDING]
        complete = {name for name, status in progress.statuses.items() if status.is_complete}
        assert progress.ready == tuple(name for name in pending if complete.issuperset(graph.needs[name]))
        for name, count in progress.missing.items():
            assert count == sum(not progress.statuses[need].is_complete for need in graph.needs[name])


@given(courses())
def test_a_need_that_failed_never_lets_who_needs_it_run_unless_always(given: tuple[Graph, list[Progress]]) -> None:
    """D2"""
    graph, course = given
    for progress in course:
        for name, status in progress.statuses.items():
            ends = [progress.statuses[need] for need in graph.needs[name]]
            lost = Status.FAILED in ends or Status.SKIPPED in ends
            if lost and graph.tasks[name].run_if == "success":
                assert status is Status.SKIPPED
                assert not progress.task_ends[name].by
                assert progress.task_ends[name].reason
            elif name in progress.task_ends:
                assert progress.task_ends[name].by == "worker"


@given(courses())
def test_every_flow_comes_to_its_end(given: tuple[Graph, list[Progress]]) -> None:
    """D10: as long as something is left, something is ready."""
    _, course = given
    assert len(course) <= len(course[0].statuses) + 1
    assert course[-1].is_complete
    assert not any(progress.is_complete for progress in course[:-1])


@given(courses())
def test_what_is_on_record_never_changes(given: tuple[Graph, list[Progress]]) -> None:
    graph, course = given
    for before, after in pairwise(course):
        assert list(after.task_ends.items())[: len(before.task_ends)] == list(before.task_ends.items())
        assert after.statuses.keys() == before.statuses.keys()
        assert {name: task_end.status for name, task_end in after.task_ends.items()} == {
            name: status for name, status in after.statuses.items() if status.is_complete
        }
        first, *others = list(after.task_ends.values())[len(before.task_ends) :]
        assert all(each.status is Status.SKIPPED and not each.by for each in others)
        for task_end in after.task_ends.values():
            assert with_task_ended(graph, after, task_end) is after
        assert with_task_ended(graph, before, first) == after


@given(courses(), st.randoms(use_true_random=False))
def test_the_order_in_which_ends_are_read_does_not_matter(given: tuple[Graph, list[Progress]], random: Any) -> None:
    """D12: whoever reads all ends of a log comes to the same states."""
    graph, course = given
    task_ends = list(course[-1].task_ends.values())
    random.shuffle(task_ends)
    progress = course[0]
    for task_end in task_ends:
        progress = with_task_ended(graph, progress, task_end)
    assert progress.statuses == course[-1].statuses
    assert progress.is_complete
    assert progress.ready == ()
