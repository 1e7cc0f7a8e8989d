"""Who answers when nobody else was found (A1, A5, C7)."""

from turnwise.selection.fixed import Default
from turnwise.testing.selector_suite import request_for, sample_tree


async def test_the_given_agent_else_the_root_else_the_first() -> None:
    """A5, C7"""
    tree = sample_tree()
    verdict = await Default("orders").select(request_for(tree, "hi"))
    assert (verdict.agent, verdict.method, verdict.confidence) == ("orders", "default_fallback", 0.6)
    assert verdict.reason == "Nothing pointed to another agent, so orders takes it."
    assert (await Default().select(request_for(tree))).agent == "root"
    fallback = await Default("retired").select(request_for(tree))
    assert fallback.agent == "root"
    assert fallback.reason == "Nothing pointed to another agent, so root takes it: retired may not be chosen."
    assert (await Default().select(request_for(tree, among=("write", "collect")))).agent == "collect"


async def test_nobody_may_be_chosen() -> None:
    assert (await Default().select(request_for(sample_tree(), among=()))).outcome == "abstained"


async def test_its_confidence_is_policy() -> None:
    """C7"""
    assert (await Default(confidence=0.25).select(request_for(sample_tree()))).confidence == 0.25
