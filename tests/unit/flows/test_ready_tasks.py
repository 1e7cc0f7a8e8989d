"""Which tasks are ready for whom, what a turn is about, and what who is at work on it sees (D3, D7, D13)."""

from turnwise.flows.tasks import Graph, Status, Task, TaskEnd, initial_progress, with_task_ended
from turnwise.flows.turns import Labels, is_within, own_label, pool_of, pool_without, turn_of
from turnwise.ports.assignment import EVERYTHING, Scope

GRAPH = Graph(
    "f",
    [
        Task("one", agents=["a", "b"]),
        Task("two", agents=["b"]),
        Task("three", depends_on=["one"]),
        Task("a/b", agents=["a"], depends_on=["three"]),
    ],
)


def everybody(_: str) -> bool:
    return True


def test_the_pool_is_who_may_do_what_is_ready() -> None:
    """D3: in the order of their first task; a task that names nobody is any agent's of the flow."""
    progress = initial_progress(GRAPH)
    assert pool_of(GRAPH, progress, ["c"], everybody) == {"a": ["one"], "b": ["one", "two"]}
    progress = with_task_ended(GRAPH, progress, TaskEnd(task="one", status=Status.SUCCESSFUL))
    assert pool_of(GRAPH, progress, ["c"], everybody) == {"b": ["two"], "c": ["three"]}
    assert pool_of(GRAPH, progress, ["c"], lambda name: name == "c") == {"c": ["three"]}


def test_who_is_at_work_and_what_is_done_are_out_of_the_pool() -> None:
    """D13."""
    assert pool_without({"a": ["one"], "b": ["one", "two"], "c": ["one"]}, "a", ["one"]) == {"b": ["two"]}


def test_a_task_sees_itself_and_what_is_upstream() -> None:
    """D7."""
    labels = Labels("f", GRAPH, EVERYTHING)
    assert labels.scope(["three"]) == Scope(("f/three",), frozenset({"f/one", "f/three"}))
    assert labels.scope(["two", "one"]) == Scope(("f/two", "f/one"), frozenset({"f/one", "f/two"}))
    assert labels.of("a/b") == "f/a%2Fb"


def test_within_another_flow_it_sees_what_that_task_sees() -> None:
    outer = Scope(("o/part",), frozenset({"o/part", "o/before"}))
    labels = Labels("f", GRAPH, outer)
    assert labels.own == own_label("f", outer) == "o/part/f"
    assert labels.scope(["one"]).sees == frozenset({"o/part/f/one", "o/before"})


def test_a_flow_knows_when_it_is_one_of_its_own_tasks() -> None:
    """D10: by the flows above it, whatever their tasks are called."""
    assert not is_within("f", EVERYTHING)
    assert is_within("f", Scope(("f/one",)))
    assert is_within("f", Scope(("f/one/g/two",)))
    assert not is_within("one", Scope(("f/one/g/two",)))
    assert is_within("f/g", Scope(("f%2Fg/one",)))


def test_a_task_is_given_what_succeeded_of_what_it_needs() -> None:
    """D2: what was done all the same is not given what failed."""
    progress = with_task_ended(GRAPH, initial_progress(GRAPH), TaskEnd(task="one", status=Status.SUCCESSFUL, result=1))
    turn = turn_of(GRAPH, progress, Labels("f", GRAPH, EVERYTHING), 3, "a#1", ["three"])
    assert [(task.name, task.given) for task in turn.tasks] == [("three", {"one": 1})]
    assert (turn.segment, turn._replace(beside=True).segment) == ("a%231#3", "turn#3/~a%231#3")
