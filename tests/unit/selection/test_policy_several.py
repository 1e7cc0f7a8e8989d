"""Messages that ask several agents for something: to whom a policy gives them."""

from typing import Any

import pytest
from selection_play import ASKED, TREE, Own, card, decide, policy_of

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec, policy_from

ALL = AgentTree([*TREE, card("several", kind="flow", routable=False), card("inside", kind="flow", parent="report")])


def verdict(agent: str = "orders", *also: str) -> Verdict:
    return Verdict(
        selector="own", outcome="chosen", agent=agent, method="mine", confidence=0.7, reason="It is plain.", also=also
    )


async def decided(said: Verdict, *, several: str | None = "several", **facts: Any) -> Selection:
    policy = policy_of("own", several=several)
    return await decide("two things", policy, tree=ALL, custom={"own": lambda tree: Own(tree, answer=said)}, **facts)


async def test_whom_the_policy_names_serves_a_message_for_several() -> None:
    selection = await decided(verdict("orders", "returns"))
    assert (selection.agent, selection.method, selection.confidence) == ("several", "several", 0.7)
    assert selection.reason == "The message asks orders and returns for something. It is plain."
    assert selection.verdicts[-1].replace(ms=0.0) == verdict("orders", "returns")


async def test_without_it_or_for_one_agent_only_routing_is_as_it_was() -> None:
    assert (await decided(verdict("orders", "returns"), several=None)).agent == "orders"
    assert (await decided(verdict("orders"))).agent == "orders"


@pytest.mark.parametrize("other", ["staff", "retired", "expert", "collect", "nobody", "several"])
async def test_only_the_eligible_count(other: str) -> None:
    """C19: closed to the caller, disabled, not routable, inside a composite, unknown, or the server itself."""
    assert (await decided(verdict("orders", other))).agent == "orders"
    both = await decided(verdict("orders", other, "returns"))
    assert both.reason.startswith("The message asks orders and returns for something.")


async def test_an_answer_is_not_shared() -> None:
    selection = await decided(verdict("orders", "returns"), occasion="answer")
    assert selection.agent == "orders"


async def test_who_waits_for_a_reply_keeps_it() -> None:
    """C9: the message may be the reply; then its invocation goes on."""
    assert (await decided(verdict("returns", "orders"), head=ASKED)).agent == "returns"
    assert (await decided(verdict("orders", "returns"), head=ASKED)).agent == "several"


async def test_a_server_that_may_not_take_it_is_passed_over() -> None:
    assert (await decided(verdict("orders", "returns"), several="staff")).agent == "orders"
    assert (await decided(verdict("orders", "returns"), resting=frozenset({"several"}))).agent == "orders"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nobody", "'several': there is no agent 'nobody'"),
        ("retired", "'retired' can take no messages: it is disabled"),
        ("inside", "'inside' can take no messages: report runs it"),
    ],
)
def test_a_server_that_can_never_take_one_is_refused(name: str, told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        Cascade(PolicySpec(several=name), ALL)


def test_it_is_part_of_the_fingerprint_and_of_plain_data() -> None:
    """E1: another server decides otherwise; a policy without one has the fingerprint that it had."""
    plain, served = Cascade(PolicySpec(), ALL), Cascade(policy_from({"several": "several"}), ALL)
    assert served.spec.several == "several"
    assert plain.fingerprint != served.fingerprint
    assert plain.fingerprint == Cascade(PolicySpec(several=None), ALL).fingerprint
