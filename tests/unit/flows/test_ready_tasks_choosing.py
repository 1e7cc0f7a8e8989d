"""The active agent, else the named one, else the strategy's (D3)."""

from collections.abc import Mapping

import pytest

from turnwise.facts.selections import Candidate, Verdict
from turnwise.flows.strategies import MostBusy, Popcorn, RoundRobin, Single
from turnwise.flows.turns import TurnChoice
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.testing import selector_suite
from turnwise.testing.selector_suite import request_for, sample_tree

TASKS = {"orders": 1, "collect": 2}


async def choice(
    active: str | None = None,
    named: str | None = None,
    strategy: Selector | None = None,
    *,
    tasks: Mapping[str, int] = TASKS,
    positions: Mapping[str, int] | None = None,
) -> Verdict:
    request = request_for(sample_tree(), "go", among=[*tasks], occasion="flow", tasks=tasks, positions=positions or {})
    return await TurnChoice(active, named, strategy or MostBusy()).select(request)


async def test_the_agent_at_work_goes_on() -> None:
    """D3: before everybody else, with the pool in words."""
    verdict = await choice("orders", "collect")
    assert (verdict.agent, verdict.method) == ("orders", "active")
    assert verdict.reason == "orders is at work. In the pool: orders (1 ready task), collect (2 ready tasks)."
    assert verdict.ignored == ()


async def test_then_whoever_was_named() -> None:
    verdict = await choice("write", "Orders.")
    assert (verdict.agent, verdict.method) == ("orders", "named")
    assert verdict.reason.startswith("orders was named as the next. In the pool: ")


async def test_then_the_strategy() -> None:
    verdict = await choice("write", "root")
    assert (verdict.agent, verdict.method) == ("collect", "most-busy")
    assert verdict.reason.endswith("than collect. In the pool: orders (1 ready task), collect (2 ready tasks).")
    assert verdict.ignored == ("'root' was named as the next, and has no ready task",)


async def test_then_the_first_of_the_pool() -> None:
    verdict = await choice(strategy=Single("write"))
    assert (verdict.agent, verdict.method) == ("orders", "first")
    assert "write is to take every turn" in verdict.reason
    assert "So it is orders, the first of the pool." in verdict.reason


async def test_who_is_alone_in_the_pool_needs_no_other_reason() -> None:
    """The strategy has its place all the same."""
    alone = await choice(strategy=RoundRobin(), tasks={"orders": 1})
    assert (alone.agent, alone.method, alone.reason) == ("orders", "round-robin", "Only orders has a ready task.")
    assert alone.position is not None
    assert (await choice(tasks={"collect": 2})).reason == "Only collect has ready tasks, 2 of them."
    assert (await choice("orders", tasks={"orders": 1})).reason == "orders is at work. Nobody else has a ready task."
    assert (await choice(strategy=Single("write"), tasks={"orders": 1})).reason.endswith(
        "So it is orders, the first of the pool. Nobody else has a ready task."
    )


async def test_an_empty_pool_is_nobody() -> None:
    verdict = await choice("orders", "orders", Popcorn(), tasks={})
    assert verdict.outcome == "abstained"


async def test_the_strategy_keeps_its_place_through_it() -> None:
    """B3: the place belongs to the strategy's name, and moves only when the strategy chose."""
    orders = await choice(strategy=RoundRobin())
    assert orders.agent == "orders"
    assert orders.position is not None
    after = await choice(strategy=RoundRobin(), positions={"round-robin": orders.position})
    assert after.agent == "collect"
    assert (await choice("orders", strategy=RoundRobin())).position is None


def test_what_is_settled_needs_no_strategy() -> None:
    assert TurnChoice("orders", "collect", Popcorn()).settled(["collect", "orders"]) == "orders"
    assert TurnChoice("orders", "collect", Popcorn()).settled(["collect"]) == "collect"
    assert TurnChoice("orders", "root", Popcorn()).settled(["collect"]) is None
    assert TurnChoice(None, None, Popcorn()).settled(["collect"]) is None


class Faulty:
    """Returns, or raises, what the test gives."""

    name = "faulty"

    def __init__(self, answer: Verdict | Exception) -> None:
        self.answer = answer

    async def select(self, request: SelectionRequest) -> Verdict:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (RuntimeError("secret"), "It raised RuntimeError, so it was passed over."),
        (Verdict(selector="x", outcome="chosen", agent="root", method="x", reason="?"), "root, who may not be chosen here"),
        (Verdict(selector="x", outcome="clarify", candidates=(Candidate(agent="orders", score=1.0),), reason="Who?"), "Who?"),
    ],
)
async def test_what_an_own_strategy_does_wrong_costs_no_turn(answer: Verdict | Exception, says: str) -> None:
    verdict = await choice(strategy=Faulty(answer))
    assert (verdict.agent, verdict.method) == ("orders", "first")
    assert says in verdict.reason
    assert "secret" not in verdict.reason


async def test_a_large_pool_is_told_in_part() -> None:
    tree = sample_tree()
    everybody = [card.name for card in tree if card.enabled and card.name not in {"staff", "report"}]
    verdict = await choice(strategy=Popcorn(), tasks=dict.fromkeys([*everybody, "report"], 1))
    assert len(verdict.reason) < 500
    assert verdict.agent == "root"


MADE: dict[str, selector_suite.Make] = {
    "active": lambda _tree: TurnChoice("orders", None, Popcorn()),
    "named": lambda _tree: TurnChoice(None, "write", Popcorn()),
    "strategy": lambda _tree: TurnChoice("ghost", "gh\nost" * 50, RoundRobin()),
}


@pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("made", MADE)
async def test_it_is_a_selector_as_any_other(made: str, case: selector_suite.Case) -> None:
    """E9"""
    await case(MADE[made])
