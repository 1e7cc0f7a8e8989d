"""Who answers conversation (C6, C8)."""

from typing import Any

import pytest

from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.meaning import Meaning
from turnwise.selection.semantic import SmallTalkSelector
from turnwise.testing import selector_suite
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import answer_of, request_for

ENCODER = BagOfWordsEncoder()

TREE = AgentTree(
    [
        AgentCard(name="root"),
        AgentCard(name="host", parent="root", description="Talks about anything."),
        AgentCard(name="orders", parent="root", examples=("where is my order",)),
    ]
)


async def verdict_of(text: str, *, among: tuple[str, ...] | None = None, **options: Any) -> Verdict:
    selector = SmallTalkSelector(Meaning(TREE, ENCODER), **options)
    return await selector.select(request_for(TREE, text, among=among))


@pytest.mark.parametrize("text", ["Hi!", "thanks a lot", "ok great bye", "Hello, how are you?"])
async def test_conversation_goes_to_the_general_agent(text: str) -> None:
    """C6"""
    verdict = await verdict_of(text, agent="host")
    assert (verdict.agent, verdict.method, verdict.confidence) == ("host", "conversational_fallback", 0.7)
    assert verdict.reason.startswith("The message is small talk with probability ")
    assert verdict.reason.endswith(", so host answers.")


async def test_without_a_general_agent_the_root_answers() -> None:
    """C6"""
    assert (await verdict_of("Hi!")).agent == "root"


@pytest.mark.parametrize("text", ["track the shipment", "cancel my hotel booking for tomorrow", "hi, where is my order"])
async def test_a_request_is_left_alone(text: str) -> None:
    """C8: "hi" in "shipment" is no greeting, and a greeting in front of a request does not make it one."""
    verdict = await verdict_of(text)
    assert verdict.outcome == "abstained"
    assert verdict.reason.startswith("The message reads as a request: small talk with probability 0.")


async def test_the_threshold_is_policy() -> None:
    """C7: thresholds are policy, not code."""
    assert (await verdict_of("Hi!", threshold=1.0)).outcome == "abstained"
    assert (await verdict_of("cancel my hotel booking for tomorrow", threshold=0.0)).agent == "root"


async def test_a_general_agent_who_may_not_be_chosen_is_not() -> None:
    """C20"""
    verdict = await verdict_of("Hi!", agent="host", among=("orders",))
    assert verdict.outcome == "abstained"
    assert verdict.reason == "host, who would answer small talk, may not be chosen here."


async def test_answers_and_empty_messages_are_not_read() -> None:
    """B7"""
    selector = SmallTalkSelector(Meaning(TREE, ENCODER))
    answer = request_for(TREE, "hi", occasion="answer", answer=answer_of("orders"))
    assert (await selector.select(answer)).reason == "Small talk is looked for in messages, not in answers."
    assert (await selector.select(request_for(TREE, "\t"))).reason == "The message has no text."


@pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
async def test_it_is_a_selector(case: selector_suite.Case) -> None:
    """E9, C20"""
    meaning = Meaning(selector_suite.sample_tree(), ENCODER)  # one for all, since making it ready takes longest
    await case(lambda _tree: SmallTalkSelector(meaning))


async def test_another_process_would_decide_the_same() -> None:
    """E9: what was read before, and by whom, plays no part."""
    tree = selector_suite.sample_tree()
    used, fresh = Meaning(tree, ENCODER), Meaning(tree, BagOfWordsEncoder())
    await used.read(["where is my order", "hi"])
    for request in selector_suite.sample_requests(tree):
        one, other = [await SmallTalkSelector(meaning).select(request) for meaning in (used, fresh)]
        assert one == other
