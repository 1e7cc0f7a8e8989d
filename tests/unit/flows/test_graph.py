"""The graph of a flow's tasks: its order, and what is refused (behaviours D1, D3, D10)."""

import re
from itertools import pairwise
from typing import Any

import pytest
from graph_play import acyclic, with_a_cycle
from hypothesis import given

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.tasks import MOST_TASKS, Graph, Task


def book() -> Graph:
    """A book has an index and two chapters; the second needs the first; a letter needs the book; a poem stands alone."""
    return Graph(
        "press",
        [
            Task("letter", depends_on=["book"]),
            Task("poem"),
            Task("two", depends_on=["one"], parent="book"),
            Task("book", depends_on=["contract"]),
            Task("one", parent="book"),
            Task("contract"),
        ],
    )


def test_what_is_needed_comes_before_and_ties_as_created() -> None:
    graph = book()
    assert list(graph.tasks) == ["letter", "poem", "two", "book", "one", "contract"]
    assert graph.order == ("poem", "one", "two", "contract", "book", "letter")
    assert [graph.place[name] for name in graph.order] == [0, 1, 2, 3, 4, 5]


def test_a_task_needs_what_it_depends_on_and_its_parts() -> None:
    graph = book()
    assert graph.needs == {
        "letter": ("book",),
        "poem": (),
        "two": ("one",),
        "book": ("contract", "two", "one"),
        "one": (),
        "contract": (),
    }
    assert graph.needed_by["one"] == ("two", "book")
    assert graph.finals == ("poem", "letter")


def test_a_part_that_is_a_dependency_too_is_needed_once() -> None:
    graph = Graph("press", [Task("book", depends_on=["one"]), Task("one", parent="book")])
    assert graph.needs["book"] == ("one",)


def test_upstream_is_all_that_is_needed_and_the_task_itself() -> None:
    graph = book()
    assert graph.upstream(["two"]) == {"two", "one"}
    assert graph.upstream(["two", "poem"]) == {"two", "one", "poem"}
    assert graph.upstream(name for name in ["letter"]) == {"letter", "book", "contract", "two", "one"}
    assert graph.upstream([]) == frozenset()
    with pytest.raises(FlowDefinitionError, match=r"has no task 'leter'.*Did you mean 'letter'"):
        graph.upstream(["poem", "leter"])


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "has no tasks"),
        ([Task("a"), Task("a")], "two tasks named 'a'"),
        (["a"], "has a str among its tasks"),
        ([Task("draft"), Task("print", depends_on=["drft"])], "no task 'drft', on which 'print' depends.*Did you mean 'draft'"),
        ([Task("draft"), Task("print", parent="drft")], "no task 'drft', the parent of 'print'.*Did you mean 'draft'"),
        ([Task("draft", depends_on=["xyz"]), Task("b")], "Known: draft, b"),
        ([Task("a", parent="a")], "a task below itself: 'a' is below 'a'"),
        (
            [Task("a", parent="b"), Task("b", parent="c"), Task("c", parent="b")],
            "a task below itself: 'b' is below 'c' is below 'b'",
        ),
        ([Task("a", depends_on=["a"])], "has a cycle: 'a' needs 'a'"),
        (
            [
                Task("x", depends_on=["a"]),
                Task("a", depends_on=["b"]),
                Task("b", depends_on=["c"]),
                Task("c", depends_on=["a"]),
            ],
            "has a cycle: 'a' needs 'b' needs 'c' needs 'a'",
        ),
        ([Task("a"), Task("b", parent="a", depends_on=["a"])], "has a cycle: 'a' needs 'b' needs 'a'"),
    ],
)
def test_what_is_no_graph(tasks: Any, words: str) -> None:
    """D10: a cycle is an error at once."""
    with pytest.raises(FlowDefinitionError, match=words) as caught:
        Graph("press", tasks)
    assert "'press'" in caught.value.problem
    assert caught.value.fix


def test_many_known_names_are_not_all_told() -> None:
    tasks = [*(Task(f"t{number}") for number in range(50)), Task("x", depends_on=["nothing like it"])]
    with pytest.raises(FlowDefinitionError, match=r"t19, … \(51 in all\)"):
        Graph("press", tasks)


def test_the_most_tasks() -> None:
    tasks = [Task("t0"), *(Task(f"t{n}", depends_on=[f"t{n - 1}"]) for n in range(1, MOST_TASKS))]
    graph = Graph("long", tasks[::-1])
    assert graph.order == tuple(task.name for task in tasks)
    assert len(graph.upstream([graph.order[-1]])) == MOST_TASKS
    with pytest.raises(FlowDefinitionError, match="has 10,001 tasks, 10,000 are allowed"):
        Graph("long", [*tasks, Task("one more")])


@given(acyclic())
def test_the_order_is_topological_with_ties_as_created(tasks: list[Task]) -> None:
    graph = Graph("any", tasks)
    assert sorted(graph.order) == sorted(graph.tasks)
    created = list(graph.tasks)
    for number, name in enumerate(graph.order):
        before = set(graph.order[:number])
        free = [other for other in created if other not in before and before.issuperset(graph.needs[other])]
        assert name == free[0]


@given(acyclic())
def test_needs_are_dependencies_and_parts_both_ways(tasks: list[Task]) -> None:
    graph = Graph("any", tasks)
    for task in tasks:
        parts = {other.name for other in tasks if other.parent == task.name}
        assert set(graph.needs[task.name]) == {*task.depends_on, *parts}
        assert len(set(graph.needs[task.name])) == len(graph.needs[task.name])
        assert set(graph.needed_by[task.name]) == {name for name, needs in graph.needs.items() if task.name in needs}
    assert set(graph.finals) == {name for name in graph.tasks if not any(name in needs for needs in graph.needs.values())}
    assert graph.upstream(graph.finals) == set(graph.tasks)


@given(acyclic())
def test_upstream_is_the_least_set_that_holds_all_needs(tasks: list[Task]) -> None:
    graph = Graph("any", tasks)
    for name in graph.tasks:
        expected = {name}
        while more := {need for each in expected for need in graph.needs[each]} - expected:
            expected |= more
        assert graph.upstream([name]) == expected


@given(with_a_cycle())
def test_a_cycle_is_always_found_and_named_as_a_whole(tasks: list[Task]) -> None:
    """D10"""
    with pytest.raises(FlowDefinitionError, match="has a cycle: ") as caught:
        Graph("any", tasks)
    named = re.findall(r"'(t\d+)'", caught.value.problem)
    assert named[0] == named[-1]
    assert len(set(named)) == len(named) - 1
    needs = {task.name: {*task.depends_on, *(other.name for other in tasks if other.parent == task.name)} for task in tasks}
    assert all(need in needs[name] for name, need in pairwise(named))
