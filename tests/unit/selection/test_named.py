"""The policies that have names."""

import asyncio

import pytest
from pydantic import JsonValue

from turnwise.facts.content import text_content
from turnwise.facts.errors import PolicyError
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import AuthorMark, Head
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED, named_policy
from turnwise.testing.fake_encoder import BagOfWordsEncoder

TREE = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root")])
OPTIONS: dict[str, dict[str, dict[str, JsonValue]]] = {
    "elemental-iterative": {"iterative": {"order": ["a", "root"]}},
    "default-with-model": {"model": {"model": {"model": "judge", "url": "http://127.0.0.1:9/v1"}}},
}


@pytest.mark.parametrize("name", NAMED)
def test_every_named_policy_can_be_used(name: str) -> None:
    cascade = Cascade(named_policy(name, options=OPTIONS.get(name)), TREE)
    assert cascade.spec.name == name


def test_they_are_these() -> None:
    elemental = ["elemental-identity", "elemental-iterative", "elemental-conversational"]
    assert list(NAMED) == ["default", "default-with-model", "adk", *elemental, "staples"]
    asked_first = ("direct", "choice", "plainly-new", "patterns")
    assert named_policy("default").stage_names() == (*asked_first, "contextual", "awaited", "clarify", "resume")
    asked_then = ("contextual", "model", "awaited", "clarify", "resume")
    assert named_policy("default-with-model").stage_names() == (*asked_first, *asked_then)
    assert named_policy("adk").stage_names() == ("resume",)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(PolicyError, match=r"no policy named 'defualt'.*default, default-with-model, adk"):
        named_policy("defualt")


def test_options_and_default_can_be_given() -> None:
    """B1, B3"""
    spec = named_policy("elemental-conversational", options={"conversational": {"lead": "a"}}, default="root")
    assert spec.stages[0].options == {"lead": "a"}
    assert spec.default == "root"
    assert named_policy("elemental-conversational").stages[0].options == {}
    with pytest.raises(PolicyError, match="no stage 'iterative'"):
        named_policy("adk", options={"iterative": {}})


def test_iterative_needs_an_order() -> None:
    """B3"""
    with pytest.raises(PolicyError, match="empty order"):
        Cascade(named_policy("elemental-iterative"), TREE)


class TestStaples:
    """C1 to C7: the stages, thresholds and methods of the Staples document."""

    TREE = AgentTree(
        [
            AgentCard(name="general"),
            AgentCard(
                name="orders",
                parent="general",
                patterns=(Pattern(regex="track", confidence=0.8), Pattern(regex="weak", confidence=0.7)),
                examples=("where is the big parcel", "has my parcel shipped"),
            ),
            AgentCard(
                name="returns",
                parent="general",
                patterns=(Pattern(regex="send back", confidence=0.9), Pattern(regex="track", confidence=0.2)),
                examples=("give goods back", "refund for broken things"),
            ),
        ]
    )
    ROUTER = Cascade(named_policy("staples"), TREE, encoder=BagOfWordsEncoder())

    @pytest.mark.parametrize(
        ("message", "direct", "agent", "method", "confidence"),
        [
            ("send back", "orders", "orders", "direct_routing", 1.0),
            ("please send back", "ghost", "returns", "strong_intent_match", 0.9),
            ("please send back", None, "returns", "strong_intent_match", 0.9),
            ("where is the big parcel", None, "orders", "semantic_match", 1.0),
            ("refund for broken things then", None, "returns", "semantic_match", None),
            ("track this: refund for broken things", None, "returns", "semantic_match", None),
            ("I need something weak for my zebra today", None, "general", "default_fallback", 0.6),
            ("I need the zebra quark piano explained today", None, "general", "default_fallback", 0.6),
        ],
    )
    async def test_its_stages(
        self, message: str, direct: str | None, agent: str, method: str, confidence: float | None
    ) -> None:
        context = MessageContext(direct_agent_id=direct)
        selection = await self.ROUTER.decide(head=Head(), message=text_content(message, "user"), context=context)
        assert (selection.agent, selection.method) == (agent, method)
        assert confidence is None or selection.confidence == pytest.approx(confidence, abs=0.01)

    async def test_small_talk(self) -> None:
        """C6"""
        selection = await self.ROUTER.decide(head=Head(), message=text_content("hello, how are you?", "user"))
        assert (selection.agent, selection.method, selection.confidence) == ("general", "conversational_fallback", 0.7)

    async def test_it_is_stateless(self) -> None:
        """The document's router sees the message only: nobody is resumed."""
        head = Head(authors={"orders": AuthorMark(spoke=2)}, active_agent="orders", last_reply="Which one?")
        selection = await self.ROUTER.decide(
            head=head, message=text_content("I need the zebra quark piano explained today", "user")
        )
        assert selection.agent == "general"

    async def test_of_three_candidates_those_with_half_are_recorded(self) -> None:
        """C5"""
        selection = await self.ROUTER.decide(head=Head(), message=text_content("has my parcel shipped", "user"))
        found = selection.verdicts[-1].candidates
        assert [each.agent for each in found] == ["orders"]
        assert all(each.score >= 0.5 for each in found)
        assert selection.verdicts[-1].selector == "semantic"


def test_a_policy_that_does_not_go_by_meaning_needs_no_encoder() -> None:
    """And the default does not where no agent says in words what it is for."""
    encoder = BagOfWordsEncoder()
    for name in ("adk", "elemental-identity", "default"):
        cascade = Cascade(named_policy(name), TREE, encoder=encoder)
        assert cascade.meaning is None
        asyncio.run(cascade.decide(head=Head(), message=text_content("hi", "user")))
        asyncio.run(cascade.prepare())
    assert encoder.calls == 0
