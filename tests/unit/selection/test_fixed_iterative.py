"""One after the other (B3)."""

import pytest

from turnwise.facts.errors import PolicyError
from turnwise.selection.fixed import Iterative
from turnwise.testing.selector_suite import request_for, sample_tree


async def cycle(order: list[str], turns: int, position: int = 0) -> list[str | None]:
    """Asks again and again, with the place in the head as the runner keeps it; a new selector every time."""
    chosen = []
    for _ in range(turns):
        verdict = await Iterative(order).select(request_for(sample_tree(), positions={"iterative": position}))
        chosen.append(verdict.agent)
        position = position if verdict.position is None else verdict.position
    return chosen


async def test_it_cycles_through_the_order() -> None:
    """B3"""
    assert await cycle(["orders", "returns", "root"], 7) == ["orders", "returns", "root"] * 2 + ["orders"]


async def test_the_place_is_in_the_request_never_on_the_selector() -> None:
    """B3, E9: two sessions do not share it."""
    selector = Iterative(["orders", "returns"])
    for _ in range(3):
        assert (await selector.select(request_for(sample_tree()))).agent == "orders"
    verdict = await selector.select(request_for(sample_tree(), positions={"iterative": 1, "other": 0}))
    assert (verdict.agent, verdict.position, verdict.method) == ("returns", 0, "iterative")
    assert verdict.reason == "It is the turn of returns, number 2 of 2 in the order."


async def test_whoever_may_not_be_chosen_is_passed_over() -> None:
    """B3, C20"""
    assert await cycle(["orders", "retired", "staff", "returns"], 4) == ["orders", "returns", "orders", "returns"]
    verdict = await Iterative(["retired", "orders"]).select(request_for(sample_tree()))
    assert [each.agent for each in verdict.passed_over] == ["retired"]
    assert verdict.position == 0
    nobody = await Iterative(["retired"]).select(request_for(sample_tree()))
    assert (nobody.outcome, nobody.position) == ("abstained", None)


@pytest.mark.parametrize("position", [5, -1, 10**30])
async def test_a_place_from_a_longer_order_still_cycles(position: int) -> None:
    assert (await cycle(["orders", "returns"], 1, position))[0] in {"orders", "returns"}


async def test_an_agent_may_come_twice() -> None:
    assert await cycle(["orders", "root", "orders"], 4) == ["orders", "root", "orders", "orders"]


def test_an_empty_order_is_an_error_at_once() -> None:
    """B3"""
    with pytest.raises(PolicyError, match="empty order"):
        Iterative([])
