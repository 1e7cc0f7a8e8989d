"""Who means what the message means (C5)."""

from typing import Any

import pytest

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.meaning import Meaning
from turnwise.selection.semantic import Semantic
from turnwise.testing import selector_suite
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import answer_of, request_for

ENCODER = BagOfWordsEncoder()


def tree_of(**examples: tuple[str, ...]) -> AgentTree:
    cards = [AgentCard(name=name, parent="root", examples=given) for name, given in examples.items()]
    return AgentTree([AgentCard(name="root"), *cards])


def sample() -> AgentTree:
    return tree_of(
        billing=("pay the invoice", "a refund for this charge", "why is the bill so high"),
        weather=("rain tomorrow", "how warm is it outside", "forecast for the weekend"),
        music=("play some jazz", "louder please", "skip this song"),
    )


async def verdict_of(text: str, tree: AgentTree | None = None, **options: Any) -> Verdict:
    tree = tree or sample()
    among = options.pop("among", None)
    return await Semantic(Meaning(tree, ENCODER), **options).select(request_for(tree, text, among=among))


async def test_the_most_similar_above_the_threshold_is_chosen() -> None:
    """C5: its confidence is the similarity, and the evidence is the nearest example."""
    verdict = await verdict_of("please pay the invoice now")
    assert (verdict.outcome, verdict.agent, verdict.method) == ("chosen", "billing", "semantic_match")
    best = verdict.candidates[0]
    assert best.score == verdict.confidence
    assert 0.5 < verdict.confidence < 1.0
    assert best.evidence == f'nearest example "pay the invoice" {verdict.confidence:.2f}'
    assert best.evidence in verdict.reason


async def test_a_slip_is_read_as_what_was_meant_and_told() -> None:
    """C2"""
    verdict = await verdict_of("pay the invocie please")
    assert (verdict.agent, verdict.confidence) == ("billing", (await verdict_of("pay the invoice please")).confidence)
    assert verdict.reason.endswith(" It reads “invocie” as “invoice”.")
    strange = await verdict_of("whoes hippopotamus is here")
    assert strange.outcome == "abstained"
    assert strange.reason.endswith(" It reads “whoes” as “whose”.")


async def test_nothing_similar_abstains_and_says_who_was_best() -> None:
    """C5"""
    verdict = await verdict_of("translate hippopotamus")
    assert (verdict.outcome, verdict.agent, verdict.candidates) == ("abstained", None, ())
    assert verdict.reason.startswith("The best match is ")
    assert verdict.reason.endswith("not above 0.5.")
    assert verdict.confidence < 0.5


async def test_exactly_the_threshold_is_a_candidate_and_not_enough() -> None:
    """C5: at least 0.5 to be considered, above 0.5 to be chosen."""
    similarity = (await verdict_of("please pay the invoice now")).confidence
    verdict = await verdict_of("please pay the invoice now", threshold=similarity)
    assert verdict.outcome == "abstained"
    assert [one.agent for one in verdict.candidates] == ["billing"]


async def test_the_top_are_recorded_best_first() -> None:
    """C5"""
    text = "pay the invoice rain tomorrow play some jazz"
    verdict = await verdict_of(text, threshold=0.1)
    assert {one.agent for one in verdict.candidates} == {"billing", "weather", "music"}
    assert len((await verdict_of(text, threshold=0.1, top=2)).candidates) == 2
    assert len((await verdict_of(text, threshold=0.1, top=1)).candidates) == 1


async def test_a_margin_asks_for_a_clear_winner() -> None:
    """C5"""
    near = "rain tomorrow and some jazz play"
    assert (await verdict_of(near, threshold=0.1)).outcome == "chosen"
    verdict = await verdict_of(near, threshold=0.1, margin=0.9)
    assert verdict.outcome == "abstained"
    assert "too close to tell" in verdict.reason
    assert (await verdict_of("pay the invoice", margin=0.3)).agent == "billing"


async def test_only_the_eligible_count() -> None:
    """C20: who may not be chosen is neither chosen nor in the way."""
    verdict = await verdict_of("pay the invoice", among=("weather", "music"), threshold=0.05)
    assert "billing" not in {one.agent for one in verdict.candidates}
    assert verdict.agent != "billing"
    verdict = await verdict_of("pay the invoice", among=("root",))
    assert (verdict.outcome, verdict.reason) == ("abstained", "No agent that may be chosen has anything to go by.")


async def test_the_probability_can_count_instead() -> None:
    """C5: a share over the agents, in place of the similarity."""
    verdict = await verdict_of("pay the invoice", score="probability")
    assert (verdict.agent, verdict.candidates[0].score) == ("billing", verdict.confidence)
    scores = (await verdict_of("pay the invoice", score="probability", threshold=0.0, top=5)).candidates
    assert sum(one.score for one in scores) == pytest.approx(1.0, abs=1e-6)


async def test_what_nobody_should_take_is_left_alone() -> None:
    """C5: when the policy sets a bound."""
    verdict = await verdict_of("pay the invoice", novelty=-0.1)
    assert verdict.outcome == "abstained"
    assert verdict.reason.startswith("Nobody seems to be for this")
    assert (await verdict_of("pay the invoice", novelty=1.0)).agent == "billing"


async def test_answers_and_empty_messages_are_not_read() -> None:
    """C5, B7"""
    tree = sample()
    selector = Semantic(Meaning(tree, ENCODER))
    answer = request_for(tree, "pay the invoice", occasion="answer", answer=answer_of("billing"))
    assert (await selector.select(answer)).reason == "Meaning is read from messages, not from answers."
    assert (await selector.select(request_for(tree, " \n"))).reason == "The message has no text."


def test_to_consider_nobody_is_refused() -> None:
    with pytest.raises(PolicyError, match="'meaning' has `top` 0"):
        Semantic(Meaning(sample(), ENCODER), top=0, name="meaning")


@pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
async def test_it_is_a_selector(case: selector_suite.Case) -> None:
    """E9, C20"""
    meaning = Meaning(selector_suite.sample_tree(), ENCODER)  # one for all, since making it ready takes longest
    await case(lambda _tree: Semantic(meaning, threshold=0.2))


async def test_another_process_would_decide_the_same() -> None:
    """E9: what was read before, and by whom, plays no part."""
    tree = selector_suite.sample_tree()
    used, fresh = Meaning(tree, ENCODER), Meaning(tree, BagOfWordsEncoder())
    await used.read(["where is my order", "hi"])
    for request in selector_suite.sample_requests(tree):
        one, other = [await Semantic(meaning, threshold=0.2).select(request) for meaning in (used, fresh)]
        assert one == other
