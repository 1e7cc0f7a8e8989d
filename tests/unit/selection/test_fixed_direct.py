"""The agent the caller names (C1)."""

import pytest

from turnwise.facts.messages import MessageContext
from turnwise.selection.fixed import Direct
from turnwise.testing.selector_suite import answer_of, request_for, sample_tree


async def test_an_agent_that_exists_is_chosen() -> None:
    """C1"""
    verdict = await Direct().select(request_for(sample_tree(), "hi", context=MessageContext(direct_agent_id="returns")))
    assert (verdict.agent, verdict.method, verdict.confidence) == ("returns", "direct_routing", 1.0)
    assert verdict.reason == "The caller named returns."


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ghost", "direct_agent_id 'ghost': no agent has that name"),
        ("Returns", "direct_agent_id 'Returns': no agent has that name"),
        ("", "direct_agent_id '': no agent has that name"),
        ("staff", "direct_agent_id 'staff': it is open to employee only"),
        ("retired", "direct_agent_id 'retired': it is disabled"),
        ("collect", "direct_agent_id 'collect': report runs it"),
        ("specialist", "direct_agent_id 'specialist': its card says that it takes no messages by routing"),
    ],
)
async def test_an_unknown_or_ineligible_one_is_ignored_and_recorded(name: str, why: str) -> None:
    """C1, C20"""
    verdict = await Direct().select(request_for(sample_tree(), "hi", context=MessageContext(direct_agent_id=name)))
    assert verdict.outcome == "abstained"
    assert verdict.ignored == (why,)


async def test_a_long_name_is_cut_in_the_record() -> None:
    verdict = await Direct().select(request_for(sample_tree(), context=MessageContext(direct_agent_id="x\n" * 10_000)))
    assert len(verdict.ignored[0]) < 150
    assert "\n" not in verdict.ignored[0]


async def test_nobody_named() -> None:
    verdict = await Direct().select(request_for(sample_tree(), "hi"))
    assert (verdict.outcome, verdict.ignored) == ("abstained", ())


async def test_it_speaks_about_messages_only() -> None:
    named = MessageContext(direct_agent_id="returns")
    request = request_for(sample_tree(), "hi", context=named, occasion="answer", answer=answer_of("orders"))
    assert (await Direct().select(request)).outcome == "abstained"
