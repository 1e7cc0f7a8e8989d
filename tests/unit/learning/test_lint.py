"""What lint says of agents as a whole (behaviour E6)."""

from typing import Any

import pytest

from turnwise.facts.tree import AgentCard, AgentTree, Pattern, Skill
from turnwise.learning.lint import lint, texts_of
from turnwise.learning.lint_examples import Finding, ordered
from turnwise.testing.fake_encoder import BagOfWordsEncoder

FIVE = ("one here", "two here", "three here", "four here", "five here")


def tree(*cards: AgentCard, **root: Any) -> AgentTree:
    return AgentTree([AgentCard(name="root", **root), *cards])


def card(name: str, **more: Any) -> AgentCard:
    return AgentCard(name=name, **{"parent": "root", "description": f"The {name} desk.", "examples": FIVE, **more})


def codes(found: list[Finding]) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.code, finding.agents) for finding in found]


def test_good_agents_give_nothing_to_find() -> None:
    """E6"""
    good = tree(
        card("orders", examples=tuple(f"order {text}" for text in FIVE)),
        card("bills"),
        description="Routes requests.",
        examples=("hello",),
    )
    vectors = BagOfWordsEncoder().encode(texts_of(good))
    assert lint(good, vectors) == lint(good) == []


def test_below_a_disabled_agent_nobody_is_reached() -> None:
    """E6: who is disabled itself is meant to be."""
    found = lint(tree(card("desk", enabled=False), card("clerk", parent="desk"), card("off", enabled=False)))
    assert ("agent.unreachable", ("clerk",)) in codes(found)
    assert [finding.severity for finding in found if finding.code == "agent.unreachable"] == ["error"]
    assert "desk above it is disabled" in found[0].problem
    assert found[0].evidence == ("root → desk → clerk",)


def test_a_default_that_is_disabled_leaves_messages_to_nobody() -> None:
    """E6"""
    assert codes(lint(tree(card("a", enabled=False)), default="a")) == [("agent.unreachable", ("a",))]


def test_who_says_nothing_of_itself_is_found() -> None:
    """E6: not the default agent, not a supervisor, not who has patterns or skills, not whom a composite runs."""
    cards = [
        card("silent", description="", examples=()),
        card("default", description="", examples=()),
        card("lead", description="", examples=()),
        card("below", parent="lead"),
        card("patterned", description="", examples=(), patterns=(Pattern(regex="parcel"),)),
        card("skilled", description="", examples=(), skills=(Skill(name="tell the time", examples=FIVE),)),
        card("unrouted", description="", examples=(), routable=False),
        card("line", kind="sequential", examples=("run the line",) * 1),
        card("step", parent="line", description="", examples=()),
        card("dead pattern", description="", examples=(), patterns=(Pattern(regex="x", active=False),)),
    ]
    found = [finding for finding in lint(tree(*cards), default="default") if finding.code == "agent.wordless"]
    assert [finding.agents for finding in found] == [("silent",), ("dead pattern",)]


def test_missing_and_few_examples() -> None:
    """E6: missing ones matter more where others have some."""
    found = lint(tree(card("a", examples=()), card("b", examples=("only one",)), card("c")))
    assert [(each.code, each.severity, each.agents) for each in found] == [
        ("example.none", "warning", ("a",)),
        ("example.few", "note", ("b",)),
    ]
    assert lint(tree(card("a", examples=()), card("b", examples=())))[0].severity == "note"
    # The default agent's examples are of conversation: that it has some says nothing about the others.
    assert lint(tree(card("a", examples=()), examples=FIVE))[0].severity == "note"


def test_a_description_that_routes_nothing_is_found() -> None:
    """E6: of the default agent, and of one with others below, only examples count."""
    cards = [
        card("desk", examples=()),
        card("clerk", parent="desk"),
        card("b"),
        card("line", kind="sequential"),
        card("c", parent="line"),
    ]
    found = lint(tree(*cards, description="Answers questions about parcels."))
    assert [(each.severity, *pair) for each, pair in zip(found, codes(found), strict=True) if "unused" in pair[0]] == [
        ("note", "description.unused", ("root",)),
        ("note", "description.unused", ("desk",)),
    ]
    assert "it takes what no other agent does" in found[-2].problem
    assert found[-2].evidence == ("Answers questions about parcels.",)
    assert "other agents stand below it" in found[-1].problem
    # With examples it is routed to, and without words there is nothing to be ignored.
    assert codes(lint(tree(card("a"), description="Answers.", examples=("hello",)))) == []
    assert codes(lint(tree(card("a")))) == []
    # Of another default agent, it is that one's; the root with children counts by its examples all the same.
    other = lint(tree(card("a", examples=()), card("b"), description="Answers."), default="a")
    assert [pair[1] for pair in codes(other) if pair[0] == "description.unused"] == [("root",), ("a",)]


def test_only_a_skill_of_the_default_agent_is_ignored_too() -> None:
    """E6"""
    found = lint(tree(card("a"), skills=(Skill(name="tell the time"),)))
    assert codes(found) == [("description.unused", ("root",))]
    assert found[0].evidence == ("tell the time",)


def test_examples_of_who_is_not_routed_to_are_found() -> None:
    """E6"""
    found = lint(tree(card("a"), routable=False, examples=("hello there",), description="Answers."))
    assert codes(found) == [("example.unused", ("root",))]


def test_roles_do_not_make_an_agent_unreachable() -> None:
    """E6: somebody has the role."""
    assert lint(tree(card("staff", roles=("staff",)))) == []


def test_texts_are_examples_and_what_leaves_say_of_themselves() -> None:
    """E6: in the tree's order, skills' examples after the card's."""
    skilled = card("a", examples=("x",), skills=(Skill(name="s", examples=("y",)),), description="Does a.")
    assert texts_of(tree(skilled, description="Routes.")) == ["x", "y", "Does a."]


def test_errors_come_first() -> None:
    """E6"""
    findings = [Finding("a.b", severity, (), "", (), "") for severity in ("note", "error", "warning", "error")]
    assert [finding.severity for finding in ordered(findings)] == ["error", "error", "warning", "note"]
    assert findings[0].data()["agents"] == []


def small_talk(found: list[Finding]) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.severity, finding.agents) for finding in found if finding.code == "agent.general"]


@pytest.mark.parametrize("kind", ["flow", "team", "sequential", "parallel", "loop"])
@pytest.mark.parametrize("first", [True, False])
def test_agents_that_run_as_a_whole_need_a_general_agent(kind: Any, first: bool) -> None:
    """E6, A3: small talk after them goes to the root, which may be no agent for it."""
    others = [card("chat"), card("letters", kind=kind), card("step", parent="letters")]
    found = tree(*(others if not first else [others[1], others[2], others[0]]))
    assert small_talk(lint(found)) == [("note", ("letters",))]
    assert small_talk(lint(found, general="chat")) == small_talk(lint(found, default="chat")) == []
    assert small_talk(lint(found, general="root")) == []
    assert small_talk(lint(found, general="letters", default="chat")) == [("warning", ("letters",))]
    assert "goes to the root root" in next(each.problem for each in lint(found) if each.code == "agent.general")


@pytest.mark.parametrize("kind", ["flow", "team", "sequential", "parallel", "loop"])
def test_a_root_that_runs_as_a_whole_takes_small_talk_badly(kind: Any) -> None:
    """E6, A3"""
    found = lint(AgentTree([AgentCard(name="letters", kind=kind), card("step", parent="letters")]))
    assert small_talk(found) == [("warning", ("letters",))]


def test_what_nobody_is_routed_to_needs_no_general_agent() -> None:
    """E6: nor what another such agent runs."""
    off = card("letters", kind="flow", enabled=False)
    assert small_talk(lint(tree(card("a"), off))) == []
    assert small_talk(lint(tree(card("letters", kind="flow"), card("line", kind="loop", parent="letters")))) == [
        ("note", ("letters",))
    ]
