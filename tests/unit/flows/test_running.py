"""What a flow's run came to (behaviours D10, D11)."""

from pydantic import JsonValue

from turnwise.facts.errors import FlowFailed, FlowStuck, LimitReached
from turnwise.flows.controller import RunEnding, judge_run
from turnwise.flows.tasks import Graph, Status, Task, TaskEnd, initial_progress, with_task_ended

GRAPH = Graph("f", [Task("a"), Task("b", depends_on=["a"]), Task("c", depends_on=["a"])])
DONE, LOST = Status.SUCCESSFUL, Status.FAILED


def ending(reason: str = "complete", **tasks: TaskEnd) -> RunEnding:
    progress = initial_progress(GRAPH)
    for closing in tasks.values():
        progress = with_task_ended(GRAPH, progress, closing)
    return RunEnding(reason, progress, len(tasks), 0)


def done(task: str, result: JsonValue = "") -> TaskEnd:
    return TaskEnd(task=task, status=DONE, result=result)


def test_the_answer_is_the_results_that_no_task_needs() -> None:
    whole = ending(a=done("a", "x"), b=done("b", "one"), c=done("c", {"n": 2}))
    assert judge_run(GRAPH, whole) == ("complete", 'b: one\n\nc: {"n": 2}', None)
    until = ending(a=done("a", "x"), b=done("b", "one"))
    assert judge_run(GRAPH, until) == ("complete", "one", None)


def test_it_failed_when_one_of_these_did_not_succeed() -> None:
    lost = ending(a=done("a"), b=TaskEnd(task="b", status=LOST, reason="no ink"), c=done("c"))
    reason, answer, problem = judge_run(GRAPH, lost)
    assert (reason, answer) == ("failed", "")
    assert isinstance(problem, FlowFailed)
    assert str(problem).startswith("The flow 'f' did not get done: 'b' failed: no ink")


def test_what_failed_is_told_once_and_where_it_began() -> None:
    """Whatever was skipped for it has no reason of its own."""
    lost = ending(a=TaskEnd(task="a", status=LOST, reason="no paper"))
    assert str(judge_run(GRAPH, lost).problem) == "The flow 'f' did not get done: 'a' failed: no paper"
    both = ending(a=done("a"), b=TaskEnd(task="b", status=LOST), c=TaskEnd(task="c", status=LOST, reason="no ink"))
    assert str(judge_run(GRAPH, both).problem) == "The flow 'f' did not get done: 'b' failed; 'c' failed: no ink"
    early = ending("failed", a=TaskEnd(task="a", status=LOST, reason="no paper"))
    assert str(judge_run(GRAPH, early).problem) == "The flow 'f' did not get done: 'a' failed: no paper"
    assert str(judge_run(GRAPH, ending("failed", a=done("a"))).problem) == "The flow 'f' did not get done."


def test_of_many_that_failed_some_are_told() -> None:
    wide = Graph("wide", [Task(f"t{number}") for number in range(40)])
    progress = initial_progress(wide)
    for name in wide.order:
        progress = with_task_ended(wide, progress, TaskEnd(task=name, status=LOST))
    words = str(judge_run(wide, RunEnding("complete", progress, 40, 0)).problem)
    assert words.endswith("'t9' failed; and 30 more")
    assert str(judge_run(wide, RunEnding("stuck", initial_progress(wide), 0, 0)).problem).endswith(
        "'t9', and 30 more. Enable one of its agents, or give the caller a role for one."
    )


def test_limits_and_nobody_there_are_errors_of_their_own() -> None:
    limit, stuck = judge_run(GRAPH, ending("limit:turns")), judge_run(GRAPH, ending("stuck"))
    assert (limit.reason, stuck.reason) == ("limit:turns", "stuck")
    assert isinstance(limit.problem, LimitReached)
    assert limit.problem.which == "turns"
    assert isinstance(stuck.problem, FlowStuck)
    assert "'a'" in str(stuck.problem)
