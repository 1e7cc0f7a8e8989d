"""The policies that have names."""

import pytest
from pydantic import JsonValue

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import PolicyError
from turnwise.facts.tree import AgentTree
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED, named

TREE = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root")])
OPTIONS: dict[str, dict[str, dict[str, JsonValue]]] = {"elemental-iterative": {"iterative": {"order": ["a", "root"]}}}


@pytest.mark.parametrize("name", NAMED)
def test_every_named_policy_can_be_used(name: str) -> None:
    cascade = Cascade(named(name, options=OPTIONS.get(name)), TREE)
    assert cascade.spec.name == name


def test_they_are_these() -> None:
    assert list(NAMED) == ["default", "adk", "elemental-identity", "elemental-iterative", "elemental-conversational"]
    assert named("default").stage_names() == ("direct", "plainly-new", "awaited", "patterns", "resume")
    assert named("adk").stage_names() == ("resume",)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(PolicyError, match=r"no policy named 'defualt'.*default, adk, elemental-identity"):
        named("defualt")


def test_options_and_default_can_be_given() -> None:
    """B1, B3"""
    spec = named("elemental-conversational", options={"conversational": {"lead": "a"}}, default="root")
    assert spec.stages[0].options == {"lead": "a"}
    assert spec.default == "root"
    assert named("elemental-conversational").stages[0].options == {}
    with pytest.raises(PolicyError, match="no stage 'iterative'"):
        named("adk", options={"iterative": {}})


def test_iterative_needs_an_order() -> None:
    """B3"""
    with pytest.raises(PolicyError, match="empty order"):
        Cascade(named("elemental-iterative"), TREE)
