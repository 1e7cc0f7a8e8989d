"""Whose patterns match (C3, C4)."""

from typing import Any

import pytest

from turnwise.facts.errors import PatternError
from turnwise.facts.events import Await
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenInvocation
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.selection.patterns import Patterns, pattern_index
from turnwise.testing.selector_suite import answer_of, request_for


def tree_of(**confidences: float) -> AgentTree:
    """A root and agents whose pattern is their own name."""
    cards = [
        AgentCard(name=name, parent="root", patterns=(Pattern(regex=rf"\b{name}\b", confidence=confidence),))
        for name, confidence in confidences.items()
    ]
    return AgentTree([AgentCard(name="root"), *cards])


async def verdict_of(tree: AgentTree, text: str, **options: Any) -> Verdict:
    return await Patterns(pattern_index(tree), **options).select(request_for(tree, text))


async def test_one_above_the_threshold_and_no_other_is_chosen() -> None:
    """C4"""
    verdict = await verdict_of(tree_of(billing=0.8, returns=0.9), "My BILLING, please")
    assert (verdict.agent, verdict.method, verdict.confidence) == ("billing", "strong_intent_match", 0.8)
    assert verdict.reason == r"The message matches a pattern of billing (\bbilling\b) and of no other agent."
    assert [(each.agent, each.score) for each in verdict.candidates] == [("billing", 0.8)]


async def test_exactly_the_threshold_is_not_above_it() -> None:
    """C4"""
    assert (await verdict_of(tree_of(billing=0.7), "billing")).outcome == "abstained"
    assert (await verdict_of(tree_of(billing=0.71), "billing")).agent == "billing"
    assert (await verdict_of(tree_of(billing=0.71), "billing", threshold=0.9)).outcome == "abstained"


async def test_any_other_match_makes_it_unclear() -> None:
    """C4: and no other match, a weak one either."""
    verdict = await verdict_of(tree_of(billing=0.9, returns=0.2), "billing returns")
    assert verdict.outcome == "abstained"
    assert [(each.agent, each.score) for each in verdict.candidates] == [("billing", 0.9), ("returns", 0.2)]
    assert verdict.reason == "Patterns of 2 agents match, billing and returns first."


@pytest.mark.parametrize(("second", "chosen"), [(0.7, True), (0.8, True), (0.85, False), (0.9, False)])
async def test_a_clear_winner_by_margin(second: float, chosen: bool) -> None:
    """C4: when the policy sets a margin; exactly the margin is enough."""
    verdict = await verdict_of(tree_of(billing=0.9, returns=second), "billing returns", margin=0.1)
    assert (verdict.outcome == "chosen") is chosen
    assert verdict.agent == ("billing" if chosen else None)


async def test_a_clear_winner_still_has_to_be_above_the_threshold() -> None:
    """C4"""
    assert (await verdict_of(tree_of(billing=0.6, returns=0.1), "billing returns", margin=0.1)).outcome == "abstained"


async def test_an_agent_counts_with_its_best_pattern_and_inactive_ones_never_match() -> None:
    """C3"""
    patterns = (
        Pattern(regex="order", confidence=0.5),
        Pattern(regex="my order", confidence=0.9),
        Pattern(regex="order", confidence=1.0, active=False),
    )
    tree = AgentTree([AgentCard(name="root"), AgentCard(name="orders", parent="root", patterns=patterns)])
    assert (await verdict_of(tree, "my order")).confidence == 0.9
    assert (await verdict_of(tree, "order")).outcome == "abstained"


async def test_only_the_eligible_are_scored() -> None:
    """C20: neither chosen nor in the way."""
    shared = (Pattern(regex="order", confidence=0.9),)
    tree = AgentTree(
        [
            AgentCard(name="root"),
            AgentCard(name="old", parent="root", patterns=shared, enabled=False),
            AgentCard(name="inner", parent="root", patterns=shared, routable=False),
            AgentCard(name="orders", parent="root", patterns=shared),
        ]
    )
    verdict = await verdict_of(tree, "order")
    assert (verdict.agent, len(verdict.candidates)) == ("orders", 1)


async def test_nothing_matches() -> None:
    verdict = await verdict_of(tree_of(billing=0.9), "hello")
    assert (verdict.outcome, verdict.reason, verdict.candidates) == ("abstained", "No agent's pattern matches.", ())


async def test_what_was_not_read_is_said() -> None:
    verdict = await verdict_of(tree_of(billing=0.9), "billing " * 5_000)
    assert verdict.ignored == ("all but the first 10000 characters of the message",)


async def test_answers_are_not_matched() -> None:
    tree = tree_of(billing=0.9)
    request = request_for(tree, "billing", occasion="answer", answer=answer_of("root", "billing"))
    assert (await Patterns(pattern_index(tree)).select(request)).outcome == "abstained"


def test_a_bad_pattern_names_its_agent() -> None:
    tree = AgentTree([AgentCard(name="root", patterns=(Pattern(regex="(?=x)"),))])
    with pytest.raises(PatternError, match="of 'root' cannot be used: look-around"):
        pattern_index(tree)


def test_a_bad_pattern_that_is_inactive_is_let_be() -> None:
    tree = AgentTree([AgentCard(name="root", patterns=(Pattern(regex="(?=x)", active=False),))])
    assert len(pattern_index(tree)) == 0


async def test_what_an_agent_asked_is_not_decided_by_anothers_pattern() -> None:
    """C9: `waits` yields to an open question, `asks` to any question of the agent that has the conversation."""
    tree = tree_of(billing=0.8, returns=0.8)
    wait = OpenInvocation(agent="returns", state="waiting", began=3, last=4, waits=(("returns", Await(id="w")),))
    spoke = Head(authors={"returns": AuthorMark(spoke=4)}, active_agent="returns", last_reply="It is done.")
    asked = spoke.replace(last_reply="Which order is it?")
    waits = asked.replace(invocations={"i": wait})
    expected = {
        None: ("billing", "billing", "billing"),
        "waits": ("billing", "billing", None),
        "asks": ("billing", None, None),
    }
    for yields, agents in expected.items():
        patterns = Patterns(pattern_index(tree), yields=yields)  # type: ignore[arg-type]
        found = [await patterns.select(request_for(tree, "billing", head=head)) for head in (spoke, asked, waits)]
        assert tuple(each.agent for each in found) == agents, yields
        assert all(each.candidates for each in found), "What matched is on record all the same."
        own = [await patterns.select(request_for(tree, "returns", head=head)) for head in (spoke, asked, waits)]
        assert {each.agent for each in own} == {"returns"}
