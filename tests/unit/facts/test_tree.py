"""The tree: what is refused, the chain, and who may be handed the floor."""

import pytest

from turnwise.facts.errors import DuplicateAgent, TreeCycle, TreeError
from turnwise.facts.tree import AgentCard, AgentTree


def card(name: str, parent: str | None = None, **fields: object) -> AgentCard:
    return AgentCard(name=name, parent=parent, **fields)  # type: ignore[arg-type]


def family(**fields: object) -> AgentTree:
    """root with a, b, c; b with x, y; `fields` are b's."""
    return AgentTree(
        [card("root"), card("a", "root"), card("b", "root", **fields), card("c", "root"), card("x", "b"), card("y", "b")]
    )


def test_one_agent_under_two_parents_names_both() -> None:
    """A14"""
    with pytest.raises(DuplicateAgent, match=r"'x'.*below 'a' and below 'b'"):
        AgentTree([card("root"), card("a", "root"), card("b", "root"), card("x", "a"), card("x", "b")])


def test_one_agent_twice_under_one_parent() -> None:
    """A14"""
    with pytest.raises(DuplicateAgent, match="below 'root' and below 'root'"):
        AgentTree([card("root"), card("x", "root"), card("x", "root")])


def test_two_agents_with_one_name_anywhere() -> None:
    """A15"""
    with pytest.raises(DuplicateAgent, match="at the root and below 'a'"):
        AgentTree([card("root"), card("a", "root"), card("root", "a")])


def test_names_differ_by_case() -> None:
    assert len(AgentTree([card("root"), card("Root", "root")])) == 2


@pytest.mark.parametrize(
    ("cards", "circle"),
    [
        ([card("a", "a")], "a → a"),
        ([card("root"), card("a", "b"), card("b", "a")], "a → b → a"),
        ([card("root"), card("tail", "a"), card("a", "b"), card("b", "c"), card("c", "a")], "a → b → c → a"),
    ],
)
def test_an_agent_below_itself(cards: list[AgentCard], circle: str) -> None:
    """A14"""
    with pytest.raises(TreeCycle, match=circle):
        AgentTree(cards)


def test_a_tree_has_one_root() -> None:
    with pytest.raises(TreeError, match="none"):
        AgentTree([])
    with pytest.raises(TreeError, match="several: a, b"):
        AgentTree([card("a"), card("b")])


def test_an_unknown_parent_is_named() -> None:
    with pytest.raises(TreeError, match="'a' names the parent 'ghost'"):
        AgentTree([card("root"), card("a", "ghost")])


def test_messages_stay_short_with_many_agents() -> None:
    cards = [card("root"), *(card(f"agent-{i}", "root") for i in range(5_000)), card("z", "ghost")]
    with pytest.raises(TreeError) as caught:
        AgentTree(cards)
    assert len(str(caught.value)) < 500
    assert "5002 in all" in str(caught.value)


def test_a_deep_tree_is_no_problem() -> None:
    cards = [card("0"), *(card(str(i), str(i - 1)) for i in range(1, 5_000))]
    tree = AgentTree(reversed(cards))
    assert len(tree.chain("4999")) == 5_000
    with pytest.raises(TreeCycle):
        AgentTree([*cards[1:], card("0", "4999")])


def test_the_chain_goes_up_to_the_root() -> None:
    """A3"""
    tree = family()
    assert tree.chain("x") == ("x", "b", "root")
    assert tree.chain("root") == ("root",)
    assert tree.children("b") == ("x", "y")
    assert tree.children("x") == ()
    assert "x" in tree
    assert "ghost" not in tree


def test_the_order_of_cards_is_the_order_of_children() -> None:
    tree = AgentTree([card("c", "root"), card("root"), card("a", "root")])
    assert tree.children("root") == ("c", "a")
    assert [each.name for each in tree] == ["c", "root", "a"]


def test_transfer_targets_are_children_then_parent_then_siblings() -> None:
    """A35"""
    tree = family()
    assert tree.transfer_targets("b") == ("x", "y", "root", "a", "c")
    assert tree.transfer_targets("x") == ("b", "y")
    assert tree.transfer_targets("root") == ("a", "b", "c")


def test_transfer_targets_follow_the_card() -> None:
    """A35"""
    assert family(disallow_transfer_to_parent=True).transfer_targets("b") == ("x", "y", "a", "c")
    assert family(disallow_transfer_to_peers=True).transfer_targets("b") == ("x", "y", "root")
    alone = AgentTree([card("root")])
    assert alone.transfer_targets("root") == ()


def test_disabled_agents_are_no_targets() -> None:
    """A35"""
    assert family(enabled=False).transfer_targets("a") == ("root", "c")
    assert family(enabled=False).transfer_targets("x") == ("y",)


@pytest.mark.parametrize("kind", ["sequential", "parallel", "loop", "team"])
def test_composites_run_their_children_and_hand_nothing_to_them(kind: str) -> None:
    tree = family(kind=kind)
    assert tree.transfer_targets("b") == ("root", "a", "c")
    assert tree.transfer_targets("x") == ()


def test_reachable_needs_every_agent_above() -> None:
    """C20"""
    assert family().reachable("x", ())
    assert not family(enabled=False).reachable("x", ())
    closed = family(roles=("staff", "admin"))
    assert not closed.reachable("x", ("guest",))
    assert closed.reachable("x", ("guest", "admin"))
    assert closed.reachable("a", ())


def test_the_version_changes_with_any_card_and_with_the_order() -> None:
    assert family().version == family().version
    assert len(family().version) == 12
    assert family().version != family(description="new").version
    one, other = [card("root"), card("a", "root"), card("b", "root")], [card("root"), card("b", "root"), card("a", "root")]
    assert AgentTree(one).version != AgentTree(other).version


def test_reachable_needs_a_role_of_every_agent_above_that_wants_one() -> None:
    """C20: also when it is asked again, for another caller."""
    cards = [
        AgentCard(name="root"),
        AgentCard(name="staff", parent="root", roles=("staff", "boss")),
        AgentCard(name="safe", parent="staff", roles=("key", "boss")),
    ]
    tree = AgentTree(cards)
    for _ in range(2):
        assert [tree.reachable("safe", roles) for roles in ((), ("staff",), ("key",), ("staff", "key"), ("boss",))] == [
            False, False, False, True, True,
        ]  # fmt: skip
        assert not tree.reachable("staff", ("key",))
    with pytest.raises(KeyError):
        tree.reachable("nobody", ())


def test_a_tree_with_replaced_cards_is_as_one_made_anew() -> None:
    """F4: its version too; places and what did not change are shared."""
    before = family()
    first = before.version
    changed = before.card("x").replace(examples=("hello",))
    tree = before.replaced([changed])
    anew = AgentTree([changed if each.name == "x" else each for each in before])
    assert [*tree] == [*anew]
    assert (tree.root, tree.children("root"), tree.children("b")) == (anew.root, anew.children("root"), anew.children("b"))
    assert tree.version == anew.version != first
    assert before.version == first == family().version
    assert before.card("x").examples == ()


@pytest.mark.parametrize(
    ("fields", "same"),
    [({"description": "new"}, True), ({"roles": ("staff",)}, False), ({"enabled": False}, False), ({"routable": False}, False)],
)
def test_a_replaced_card_changes_who_may_reach_it(fields: dict[str, object], same: bool) -> None:
    """C19"""
    before = family()
    assert before.reachable("x", ())
    tree = before.replaced([card("b", "root", **fields)])
    anew = family(**fields)
    assert tree.same_access(before) is same
    assert not tree.same_access(anew)
    for name in ("b", "x", "a"):
        assert (tree.reachable(name, ()), tree.permits(name, ())) == (anew.reachable(name, ()), anew.permits(name, ()))


@pytest.mark.parametrize("new", [card("new", "root"), card("x", "root"), card("b"), card("root", "a")])
def test_a_new_agent_or_place_needs_a_new_tree(new: AgentCard) -> None:
    with pytest.raises(ValueError, match="is new or moves"):
        family().replaced([new])
