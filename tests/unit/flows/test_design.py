"""Designs: what is checked before anything runs."""

from typing import Any

import pytest

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.design import make_design, run_rules
from turnwise.flows.strategies import Popcorn, RoundRobin
from turnwise.flows.tasks import Task
from turnwise.flows.until import AllComplete, AnyComplete

PLAIN = run_rules("f")


def test_what_is_not_given_is_plain() -> None:
    design = make_design("f", [Task("a", agents=["x"]), Task("b", agents=["x", "y"])], PLAIN, agents=("z",))
    assert isinstance(design.rules.strategy, Popcorn)
    assert isinstance(design.rules.until, AllComplete)
    assert (design.rules.side_by_side, design.max_turns, design.targets, design.relays) == (1, 20, None, False)
    assert design.names == ("x", "y", "z")


@pytest.mark.parametrize(("side_by_side", "max_turns", "told"), [(0, None, "'f': side_by_side is 0"), (1, 0, "max_turns is 0")])
def test_numbers_below_one_are_refused(side_by_side: int, max_turns: int | None, told: str) -> None:
    with pytest.raises(FlowDefinitionError, match=told):
        run_rules("f", None, None, side_by_side, max_turns)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"strategy": "round-robin"}, r"'f': strategy is a str. Give an object such as RoundRobin\(\)"),
        ({"strategy": RoundRobin}, r"strategy is the class RoundRobin. Make one of it: RoundRobin\("),
        ({"strategy": 3}, "strategy is an int"),
        ({"until": AllComplete}, r"until is the class AllComplete. Make one of it: AllComplete\("),
        ({"until": "any_failed"}, r"until is a str. Give an object such as AnyFailed\(\)"),
        ({"max_turns": "3"}, "max_turns is a str. Give a whole number"),
        ({"max_turns": True}, "max_turns is a bool"),
        ({"side_by_side": 1.5}, "side_by_side is a float"),
        ({"side_by_side": None}, "side_by_side is None"),
    ],
)
def test_what_no_conduct_is_made_of_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(FlowDefinitionError, match=told):
        run_rules("f", **given)


def test_turns_are_limited_by_what_is_given() -> None:
    assert make_design("f", [Task("a", agents=["x"])], run_rules("f", max_turns=3)).max_turns == 3


def test_a_task_that_nobody_may_do_is_refused() -> None:
    with pytest.raises(FlowDefinitionError, match="No agent can do the task 'a'"):
        make_design("f", [Task("a")], PLAIN)
    assert make_design("f", [Task("a")], PLAIN, agents=("x",)).agents == ("x",)


def test_conditions_and_targets_name_tasks_that_are_there() -> None:
    tasks = [Task("a", agents=["x"])]
    with pytest.raises(FlowDefinitionError, match="no task 'b'"):
        make_design("f", tasks, PLAIN, targets=["b"])
    with pytest.raises(FlowDefinitionError, match="has no targets"):
        make_design("f", tasks, PLAIN, targets=[])
    with pytest.raises(FlowDefinitionError, match="no task 'b'"):
        make_design("f", tasks, PLAIN._replace(until=AnyComplete("b")))
