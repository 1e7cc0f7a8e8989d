"""The adaptation of the contextual model: fitted to labels, held near what is shipped (behaviours C17, H5)."""

import math
import random
from collections.abc import Sequence

import pytest

from turnwise.facts.cards import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.learning.tune import NUMBERS, Scored, adapted_options
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

AGENTS = ("active", "other")
TREE = AgentTree(
    [AgentCard(name="root"), *(AgentCard(name=name, parent="root", examples=(f"{name} text",)) for name in AGENTS)]
)


class Turns:
    """Turns of conversations in which users stay more often than the shipped model expects: by `stays` in log-odds."""

    def __init__(self, count: int, stays: float, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.odds = [chance.gauss(0.0, 1.0) for _ in range(count)]
        self.expected = ["active" if chance.random() < _share(odds + stays) else "other" for odds in self.odds]

    async def weigh(self, cascade: Cascade) -> Sequence[Scored]:
        options = cascade.options()["contextual"]
        assert isinstance(options, dict)
        stay = options["stay"]
        assert isinstance(stay, float)
        shares = [_share(odds + stay) for odds in self.odds]
        return [{"active": share, "other": 1.0 - share} for share in shares]


def _share(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))


def cascade(spec: PolicySpec | None = None) -> Cascade:
    return Cascade(spec or named_policy("default"), TREE, encoder=BagOfWordsEncoder())


async def fitted(turns: Turns, at: Cascade | None = None) -> dict[str, float]:
    found = await adapted_options(at or cascade(), turns.weigh, turns.expected, [1.0] * len(turns.expected))
    return {each.option: each.value for each in found}


async def test_many_labels_find_how_often_users_stay() -> None:
    found = await fitted(Turns(800, stays=1.5))
    assert found.keys() == {"stay"}, "what moves nothing stays as it is"
    assert found["stay"] == pytest.approx(1.5, abs=0.35)


async def test_few_labels_change_less_and_none_change_nothing() -> None:
    """H5"""
    few = [(await fitted(Turns(15, stays=1.5, seed=seed))).get("stay", 0.0) for seed in range(10)]
    assert sum(few) / len(few) < 1.2 < (await fitted(Turns(800, stays=1.5)))["stay"]
    assert await fitted(Turns(0, stays=1.5)) == {}


async def test_what_is_right_already_stays_as_shipped() -> None:
    for seed in range(5):
        assert abs((await fitted(Turns(300, stays=0.0, seed=seed))).get("stay", 0.0)) < 0.3


async def test_it_is_bounded_and_anchored_at_what_is_shipped() -> None:
    """A policy that was adapted before is fitted again from its own numbers, and held near 0."""
    before = cascade(named_policy("default", options={"contextual": {"stay": 3.0}}))
    again = await fitted(Turns(400, stays=1.0), before)
    assert again["stay"] == pytest.approx(1.0, abs=0.4)
    extreme = await fitted(Turns(2_000, stays=9.0))
    assert extreme["stay"] <= next(each.most for each in NUMBERS if each.name == "stay")


async def test_the_same_labels_give_the_same_numbers() -> None:
    assert await fitted(Turns(200, stays=1.0)) == await fitted(Turns(200, stays=1.0))


async def test_a_policy_without_a_contextual_stage_has_nothing_to_adapt() -> None:
    assert await fitted(Turns(50, stays=2.0), cascade(policy_from({"stages": ["semantic"]}))) == {}
