"""The memory as evidence: an agent that noted a thing which the message names."""

from functools import cache

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.selections import NotedBy, Verdict
from turnwise.facts.sessions import AuthorMark, Exchange, Head
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.selector import ROUTE, Contextual
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import pattern_index


def card(name: str, *examples: str, **more: object) -> AgentCard:
    return AgentCard(name=name, parent="front", examples=examples, **more)  # type: ignore[arg-type]


@cache
def tree() -> AgentTree:
    return AgentTree([
        AgentCard(name="front", description="Welcomes everybody."),
        card("orders", "Where is my order?", "My parcel has not arrived", "track my shipment"),
        card("billing", "I was charged twice", "Send me the invoice", "I want my money back"),
        card("admin", "Delete a user", "Change the rights of a colleague", "Show the audit log"),
        card("once", "Tell me a joke", resume="never"),
    ])  # fmt: skip


@cache
def selector() -> Contextual:
    return Contextual(Meaning(tree(), OnnxEncoder()), pattern_index(tree()))


def noted(*agents: str) -> tuple[NotedBy, ...]:
    return tuple(NotedBy(type="code", agent=agent, entry=f"e{place}") for place, agent in enumerate(agents))


async def decide(text: str, by: tuple[NotedBy, ...] = (), *, without: str = "", past: Head | None = None) -> Verdict:
    eligible = tuple(each.name for each in tree() if each.name != without)
    request = SelectionRequest(text_content(text), tree(), past or Head(), eligible, noted=by)
    return await selector().select(request)


@pytest.mark.parametrize("agent", ["orders", "billing"])
async def test_a_message_that_names_only_a_thing_goes_to_the_agent_that_noted_it(agent: str) -> None:
    """C14: the reason names the memory, and not the thing."""
    verdict = await decide("any news on 10412?", noted(agent))
    assert (verdict.agent, verdict.method) == (agent, ROUTE)
    assert f"{agent} noted this code before" in verdict.reason
    assert "noted it before" in verdict.candidates[0].evidence
    assert "10412" not in verdict.reason


async def test_without_a_memory_nothing_changes() -> None:
    """C14"""
    assert "noted" not in str(await decide("any news on 10412?"))


@pytest.mark.parametrize(
    ("text", "agent"), [("I was charged twice for 10412", "billing"), ("track my shipment 10412", "orders")]
)
@pytest.mark.parametrize("by", ["orders", "billing", "admin"])
async def test_a_clear_request_goes_where_it_belongs(text: str, agent: str, by: str) -> None:
    """C14: the memory decides only what the message leaves open."""
    assert (await decide(text, noted(by))).agent == agent


async def test_a_memory_never_opens_an_agent() -> None:
    """G5: an agent that is not eligible is no candidate, whoever noted what."""
    for by in (noted("admin"), noted("admin", "orders")):
        verdict = await decide("any news on 10412?", by, without="admin")
        assert verdict.agent != "admin"
        assert all(each.agent != "admin" for each in verdict.candidates)


async def test_an_agent_that_is_never_resumed_gets_nothing_by_memory() -> None:
    assert (await decide("any news on 10412?", noted("once"))).agent != "once"


async def test_of_two_agents_each_counts() -> None:
    for by in (noted("orders", "billing"), noted("billing", "orders")):
        verdict = await decide("and 10412 with 20833?", by)
        assert {each.agent for each in verdict.candidates[:2]} == {"orders", "billing"}


@pytest.mark.parametrize("text", ["it's BL-20833", "BL-20833", "10412, thanks"])
async def test_an_answer_stays_with_the_agent_that_asked(text: str) -> None:
    """C9: a number that another agent noted is still the answer to the question."""
    past = Head(
        authors={"orders": AuthorMark(spoke=1)},
        active_agent="orders",
        last_reply="Sure, what is your order number?",
        recent=(Exchange(message="Where is my parcel?", agent="orders"),),
        turns=1,
    )
    assert (await decide(text, noted("billing"), past=past)).agent == "orders"


async def test_in_a_conversation_it_counts_for_the_agent_that_noted_it() -> None:
    """C9, C14: the agent that has the conversation often keeps it nevertheless."""
    past = Head(
        authors={"orders": AuthorMark(spoke=1)},
        active_agent="orders",
        last_reply="It is on its way.",
        recent=(Exchange(message="Where is my parcel?", agent="orders"),),
        turns=1,
    )
    shares = [
        {each.agent: each.score for each in (await decide("and what about BL-20833?", by, past=past)).candidates}
        for by in ((), noted("billing"))
    ]
    assert shares[1]["billing"] > 10 * shares[0]["billing"]
