"""What a flow's run came to (behaviours D10, D11)."""

from pydantic import JsonValue

from turnwise.facts.errors import FlowFailed, FlowStuck, LimitReached
from turnwise.flows.controller import Ending
from turnwise.flows.graph import Graph
from turnwise.flows.progress import Closing, begun, closed
from turnwise.flows.running import judged
from turnwise.flows.task import Status, Task

GRAPH = Graph("f", [Task("a"), Task("b", depends_on=["a"]), Task("c", depends_on=["a"])])
DONE, LOST = Status.SUCCESSFUL, Status.FAILED


def ending(reason: str = "complete", **tasks: Closing) -> Ending:
    progress = begun(GRAPH)
    for closing in tasks.values():
        progress = closed(GRAPH, progress, closing)
    return Ending(reason, progress, len(tasks), 0)


def done(task: str, result: JsonValue = "") -> Closing:
    return Closing(task=task, status=DONE, result=result)


def test_the_answer_is_the_results_that_no_task_needs() -> None:
    whole = ending(a=done("a", "x"), b=done("b", "one"), c=done("c", {"n": 2}))
    assert judged(GRAPH, whole) == ("complete", 'b: one\n\nc: {"n": 2}', None)
    until = ending(a=done("a", "x"), b=done("b", "one"))
    assert judged(GRAPH, until) == ("complete", "one", None)


def test_it_failed_when_one_of_these_did_not_succeed() -> None:
    lost = ending(a=done("a"), b=Closing(task="b", status=LOST, reason="no ink"), c=done("c"))
    reason, answer, problem = judged(GRAPH, lost)
    assert (reason, answer) == ("failed", "")
    assert isinstance(problem, FlowFailed)
    assert str(problem).startswith("The flow 'f' did not get done: 'b' failed: no ink")


def test_limits_and_nobody_there_are_errors_of_their_own() -> None:
    limit, stuck = judged(GRAPH, ending("limit:turns")), judged(GRAPH, ending("stuck"))
    assert (limit.reason, stuck.reason) == ("limit:turns", "stuck")
    assert isinstance(limit.problem, LimitReached)
    assert limit.problem.which == "turns"
    assert isinstance(stuck.problem, FlowStuck)
    assert "'a'" in str(stuck.problem)
