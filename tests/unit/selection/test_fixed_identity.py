"""Always the lead (B1, B2)."""

from turnwise.selection.fixed import Identity
from turnwise.testing.selector_suite import answer_of, request_for, sample_tree


async def test_always_the_lead() -> None:
    """B2"""
    tree = sample_tree()
    for request in (
        request_for(tree, "to returns, please"),
        request_for(tree, "x", occasion="answer", answer=answer_of("root", following="returns")),
    ):
        verdict = await Identity("orders").select(request)
        assert (verdict.agent, verdict.method, verdict.confidence) == ("orders", "identity", 1.0)


async def test_without_a_lead_the_root_or_the_first_of_a_team() -> None:
    """B1"""
    tree = sample_tree()
    assert (await Identity().select(request_for(tree))).agent == "root"
    assert (await Identity().select(request_for(tree, among=("write", "collect")))).agent == "collect"
    assert (await Identity().select(request_for(tree, among=()))).outcome == "abstained"


async def test_a_lead_that_may_not_be_chosen_is_not() -> None:
    """C20"""
    verdict = await Identity("retired").select(request_for(sample_tree()))
    assert (verdict.outcome, verdict.reason) == ("abstained", "The lead retired may not be chosen.")
