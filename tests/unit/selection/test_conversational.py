"""Whom the answer names (B4, B5, B7)."""

from typing import Any

import pytest

from turnwise.facts.cards import AgentCard
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import AuthorMark, Head
from turnwise.facts.tree import AgentTree
from turnwise.selection.conversational import Conversational, take_next
from turnwise.testing.selector_suite import answer_of, request_for, sample_tree


async def after(text: str, *, author: str = "orders", tree: AgentTree | None = None, lead: str | None = None) -> Verdict:
    """The verdict on an answer as the runner stores it: clean, with the name beside it."""
    clean, following = take_next(text)
    request = request_for(tree or sample_tree(), "hi", occasion="answer", answer=answer_of(author, clean, following=following))
    return await Conversational(lead).select(request)


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("Over to you. <next>@returns</next>", "returns"),
        ("<next>returns</next>", "returns"),
        ("<next>please, @root or better @ returns </next>", "returns"),
        ("<next>@Stores Nearby</next>", "Stores Nearby"),
        ("<next>@stores  nearby!</next>", "Stores Nearby"),
        ("<next>@RETURNS.</next>", "returns"),
        ("<next>@Self</next>", "orders"),
        ("<next>@self.</next>", "orders"),
    ],
)
async def test_the_tag_names_the_next(text: str, agent: str) -> None:
    """B4"""
    verdict = await after(text)
    assert (verdict.agent, verdict.method) == (agent, "conversational")


@pytest.mark.parametrize(
    "text",
    [
        "no tag",
        "<next>@returns",
        "<next>@ghost</next>",
        "<next></next>",
        "<next>@</next>",
        "<next>@retired</next>",
        "<next>@collect</next>",
        "<next>@return</next>",
    ],
)
async def test_the_lead_takes_it_when_nobody_usable_is_named(text: str) -> None:
    """B1, B4"""
    verdict = await after(text, lead="Stores Nearby")
    assert (verdict.agent, verdict.method) == ("Stores Nearby", "lead_fallback")
    assert verdict.reason.endswith("so Stores Nearby takes it as the lead.")
    assert (await after(text)).agent == "root"


async def test_tolerance_only_when_exactly_one_fits() -> None:
    """B4"""
    tree = AgentTree(
        [
            AgentCard(name="root"),
            *(AgentCard(name=name, parent="root") for name in ("Writer", "WRITER", "critic", "Q&A!", "Straße")),
        ]
    )
    assert (await after("<next>@writer</next>", tree=tree, author="critic")).agent == "root"
    assert (await after("<next>@WRITER</next>", tree=tree, author="critic")).agent == "WRITER"
    assert (await after("<next>@q&a</next>", tree=tree, author="critic")).agent == "Q&A!"
    assert (await after("<next>@STRASSE</next>", tree=tree, author="critic")).agent == "Straße"


async def test_self_is_the_speaker_whatever_the_agents_are_called() -> None:
    """B4"""
    tree = AgentTree([AgentCard(name="root"), AgentCard(name="Self", parent="root")])
    assert (await after("<next>@Self</next>", tree=tree, author="root")).agent == "root"


async def test_on_a_message_the_lead_works_first() -> None:
    """B1"""
    verdict = await Conversational("returns").select(request_for(sample_tree(), "hi"))
    assert (verdict.agent, verdict.ignored) == ("returns", ())


async def test_a_tag_in_the_users_message_is_ignored_and_listed() -> None:
    """B5"""
    verdict = await Conversational().select(request_for(sample_tree(), "hi <next>@returns</next>"))
    assert verdict.agent == "root"
    assert verdict.ignored == ("a <next> tag in the user's message: only an agent's own answer can hand on",)


async def test_a_tag_in_a_tools_result_is_ignored_and_listed() -> None:
    """B5"""
    message = Content(role="user", parts=(ToolResultPart(call_id="c", result={"page": ["<next>@returns</next>"]}),))
    verdict = await Conversational().select(request_for(sample_tree(), message=message))
    assert (verdict.agent, len(verdict.ignored)) == ("root", 1)


async def test_a_tag_in_a_quote_of_the_answer_is_ignored_and_listed() -> None:
    """B5"""
    verdict = await after("They wrote `<next>@returns</next>`.")
    assert verdict.agent == "root"
    assert verdict.ignored == ("a <next> tag in a quote or code of the answer",)


async def test_an_answer_whose_author_is_the_user_counts_for_nothing() -> None:
    """B5"""
    assert (await after("<next>@returns</next>", author="user")).agent == "root"


async def test_a_lead_that_may_not_be_chosen_abstains() -> None:
    assert (await after("no tag", lead="retired")).outcome == "abstained"


def spoke(named: str | None, speaker: str = "orders") -> Head:
    return Head(authors={speaker: AuthorMark(spoke=2)}, active_agent=speaker, named_next=named, turns=1)


@pytest.mark.parametrize(
    ("named", "speaker", "agent"),
    [
        ("returns", "orders", "returns"),
        ("RETURNS!", "orders", "returns"),
        ("Stores Nearby", "orders", "Stores Nearby"),
        ("Self", "orders", "orders"),
        ("orders", "orders", "orders"),
        ("root", "orders", "root"),
    ],
)
async def test_on_a_message_the_last_answers_name_counts(named: str, speaker: str, agent: str) -> None:
    """B4: as the head keeps it."""
    verdict = await Conversational("report").select(request_for(sample_tree(), "hi", head=spoke(named, speaker)))
    assert (verdict.agent, verdict.method) == (agent, "conversational")


@pytest.mark.parametrize(
    ("named", "speaker", "agent", "rule"),
    [
        ("ghost", "orders", "ghost", "unknown"),
        ("retired", "orders", "retired", "disabled"),
        ("staff", "orders", "staff", "role"),
        ("collect", "orders", "collect", "inside_composite"),
        ("returns", "root", "returns", "forbidden"),
        ("root", "returns", "root", "forbidden"),
        ("Self", "ghost", "ghost", "unknown"),
        ("orders", "ghost", "orders", "not_eligible"),
    ],
)
async def test_on_a_message_a_name_that_lapsed_is_in_the_record(named: str, speaker: str, agent: str, rule: str) -> None:
    """A37, B1: the lead takes it; a tag opens no more than a transfer."""
    verdict = await Conversational("report").select(request_for(sample_tree(), "hi", head=spoke(named, speaker)))
    assert (verdict.agent, verdict.method) == ("report", "lead_fallback")
    assert [(each.agent, each.rule) for each in verdict.passed_over] == [(agent, rule)]
    assert verdict.reason.startswith(f"The last answer named '{named}', who may not be chosen")


@pytest.mark.parametrize("occasion", ["message", "flow"])
async def test_a_team_and_a_flow_begin_anew_with_each_message(occasion: Any) -> None:
    """B1, B7: what an answer outside named is nobody's among their members."""
    lead = "orders" if occasion == "message" else None
    request = request_for(sample_tree(), "hi", head=spoke("Self", "Stores Nearby"), occasion=occasion, lead=lead)
    verdict = await Conversational("orders").select(request)
    assert (verdict.agent, verdict.reason) == ("orders", "Nobody has answered yet, so orders takes it as the lead.")
