"""Who may be chosen at all (C19, C20)."""

import pytest

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.eligibility import NameSet, eligible


def card(name: str, parent: str | None = "root", **fields: object) -> AgentCard:
    return AgentCard(name=name, parent=parent, **fields)  # type: ignore[arg-type]


def rules(tree: AgentTree, **given: object) -> dict[str, str]:
    return dict(eligible(tree, **given).rules)  # type: ignore[arg-type]


def test_children_of_routable_agents_are_candidates() -> None:
    """C19"""
    tree = AgentTree([card("root", None), card("a"), card("x", "a"), card("deep", "x")])
    assert eligible(tree).names == ("root", "a", "x", "deep")


@pytest.mark.parametrize("kind", ["sequential", "parallel", "loop", "team"])
def test_children_of_composites_are_none(kind: str) -> None:
    """C19: at any depth below."""
    tree = AgentTree([card("root", None), card("c", kind=kind), card("x", "c"), card("deep", "x")])
    assert eligible(tree).names == ("root", "c")
    assert rules(tree) == {"x": "inside_composite", "deep": "inside_composite"}
    assert "c runs it" in eligible(tree).excluded[1].detail


def test_not_routable_is_the_agents_own() -> None:
    """C19: a supervisor that takes no messages may lead many who do; it may still go on with what it was given."""
    tree = AgentTree([card("root", None), card("boss", routable=False), card("x", "boss")])
    who = eligible(tree)
    assert who.names == ("root", "x")
    assert who.continuing == ("root", "boss", "x")
    assert who.rules == {"boss": "not_routable"}


def test_disabled_and_roles_are_inherited() -> None:
    """C20: what is above a disabled agent stays, what is below it goes; so with roles."""
    tree = AgentTree(
        [
            card("root", None),
            card("off", enabled=False),
            card("below-off", "off"),
            card("staff", roles=("employee", "admin")),
            card("below-staff", "staff"),
            card("boss", "staff", roles=("admin",)),
        ]
    )
    assert eligible(tree).names == ("root",)
    assert rules(tree) == {"off": "disabled", "below-off": "disabled", "staff": "role", "below-staff": "role", "boss": "role"}
    assert eligible(tree, roles=("employee", "x")).names == ("root", "staff", "below-staff")
    assert eligible(tree, roles=("admin",)).names == ("root", "staff", "below-staff", "boss")
    details = {each.agent: each.detail for each in eligible(tree).excluded}
    assert details["below-off"] == "off above it is disabled"
    assert details["below-staff"] == "staff above it is open to employee, admin only"


def test_resting_agents_rest_alone() -> None:
    """C20"""
    tree = AgentTree([card("root", None), card("a"), card("x", "a")])
    who = eligible(tree, resting={"a"})
    assert who.names == ("root", "x")
    assert who.continuing == ("root", "x")
    assert who.rules == {"a": "resting"}


def test_permission_comes_before_everything_else() -> None:
    everything = {"enabled": False, "roles": ("r",), "routable": False}
    tree = AgentTree([card("root", None), card("c", kind="team"), card("x", "c", **everything)])
    assert rules(tree, resting={"x"})["x"] == "disabled"
    tree = AgentTree([card("root", None), card("c", kind="team"), card("x", "c", roles=("r",), routable=False)])
    assert rules(tree, resting={"x"})["x"] == "role"
    assert rules(tree, roles=("r",), resting={"x"})["x"] == "resting"
    assert rules(tree, roles=("r",))["x"] == "inside_composite"


def test_a_teams_members_are_judged_by_permission_only() -> None:
    """B7: a team asks among its members."""
    tree = AgentTree(
        [
            card("root", None),
            card("t", kind="team"),
            card("b", "t"),
            card("a", "t", routable=False),
            card("c", "t", enabled=False),
        ]
    )
    who = eligible(tree, among=("a", "b", "c", "ghost"))
    assert who.names == ("b", "a")
    assert who.rules == {"c": "disabled"}
    assert eligible(tree, among=()).names == ()


def test_the_order_is_the_trees() -> None:
    tree = AgentTree([card("z"), card("root", None), card("a"), card("m", "z")])
    assert eligible(tree).names == ("z", "root", "a", "m")


def test_a_deep_tree_is_no_problem() -> None:
    tree = AgentTree([card("0", None), *(card(str(i), str(i - 1)) for i in range(1, 3_000))])
    assert len(eligible(tree).names) == 3_000


def test_names_are_a_tuple_with_a_quick_in() -> None:
    names = NameSet(["a", "b"])
    assert names == ("a", "b")
    assert names[0] == "a"
    assert "b" in names
    assert "c" not in names
