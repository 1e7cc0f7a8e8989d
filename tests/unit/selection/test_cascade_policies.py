"""What the named policies decide as a whole (A1, A2, A5, B2–B5, B7, C1, C4, C9)."""

from typing import Any

import pytest
from selection_play import ASKED, SPOKE, TREE, decide, policy_of, stages, user

from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import Cascade, moved_positions
from turnwise.selection.named import named_policy
from turnwise.selection.policy import SegmentSpec
from turnwise.testing.selector_suite import answer_of


class TestTheDefaultPolicy:
    async def test_the_first_message_of_a_session_goes_to_the_root(self) -> None:
        """A1, C7"""
        selection = await decide("hello")
        assert (selection.agent, selection.method, selection.confidence) == ("root", "default_fallback", 0.6)
        asked = ["direct", "choice", "plainly-new", "patterns", "contextual", "awaited", "clarify", "resume"]
        assert stages(selection) == [*((name, "abstained") for name in asked), ("default", "chosen")]

    async def test_the_caller_comes_first(self) -> None:
        """C1"""
        named_agent = MessageContext(direct_agent_id="orders")
        selection = await decide("return", head=ASKED, context=named_agent)
        assert (selection.agent, selection.method, stages(selection)) == ("orders", "direct_routing", [("direct", "chosen")])

    async def test_an_unknown_name_of_the_caller_is_ignored_and_recorded(self) -> None:
        """C1"""
        selection = await decide("return", context=MessageContext(direct_agent_id="ghost"))
        assert selection.agent == "returns"
        assert selection.verdicts[0].ignored == ("direct_agent_id 'ghost': no agent has that name",)

    async def test_a_pattern_routes(self) -> None:
        """C4"""
        selection = await decide("my order")
        assert (selection.agent, selection.method, selection.confidence) == ("orders", "strong_intent_match", 0.8)

    async def test_a_question_of_the_active_agent_is_not_stolen(self) -> None:
        """C9: unless the message is plainly a new request."""
        answered = await decide("order 12345", head=ASKED)
        assert (answered.agent, answered.method, answered.verdicts[-1].selector) == ("returns", "resume", "awaited")
        new = await decide("where is my order", head=ASKED)
        assert (new.agent, new.verdicts[-1].selector) == ("orders", "plainly-new")

    async def test_without_a_question_a_pattern_beats_resuming(self) -> None:
        assert (await decide("my order", head=SPOKE)).agent == "orders"
        assert (await decide("yes", head=SPOKE)).agent == "returns"


class TestTheReferencesPolicies:
    async def test_adk_resumes_and_nothing_else(self) -> None:
        """A2, A5: no patterns, no direct target."""
        facts: dict[str, Any] = {"head": SPOKE, "context": MessageContext(direct_agent_id="orders")}
        selection = await decide("where is my order", "adk", **facts)
        assert (selection.agent, selection.method, stages(selection)) == ("returns", "resume", [("resume", "chosen")])
        assert (await decide("where is my order", "adk")).agent == "root"

    async def test_identity(self) -> None:
        """B2"""
        lead = named_policy("elemental-identity", options={"identity": {"lead": "orders"}})
        assert (await decide("return", lead, head=SPOKE)).agent == "orders"
        assert (await decide("return", "elemental-identity", head=SPOKE)).agent == "root"

    async def test_iterative_takes_its_place_from_the_head_and_gives_it_back(self) -> None:
        """B3"""
        spec = named_policy("elemental-iterative", options={"iterative": {"order": ["orders", "returns"]}})
        chosen, head = [], Head()
        for _ in range(3):
            selection = await decide("x", spec, head=head)
            chosen.append(selection.agent)
            head = head.replace(positions=head.positions | moved_positions(selection))
        assert chosen == ["orders", "returns", "orders"]
        assert moved_positions(selection) == {"iterative": 1}

    async def test_conversational_reads_the_answer_and_never_the_user(self) -> None:
        """B4, B5"""
        spec = named_policy("elemental-conversational", default="returns")
        selection = await decide("<next>@orders</next>", spec)
        assert (selection.agent, selection.method) == ("returns", "lead_fallback")
        assert len(selection.verdicts[0].ignored) == 1
        told = await decide("x", spec, occasion="answer", answer=answer_of("returns", following="orders"))
        assert (told.agent, told.occasion) == ("orders", "answer")


class TestAfterAnAnswer:
    """B7: the policy's own selector for tags is asked on an answer, and no other stage."""

    @staticmethod
    def after(spec: Any, following: str | None, author: str = "orders", **context: Any) -> Selection | None:
        cascade = Cascade(named_policy(spec) if isinstance(spec, str) else spec, TREE)
        targets = TREE.transfer_targets(author)
        answer = answer_of(author, "on, with my order", following=following)
        given = MessageContext(**context)
        return cascade.after(answer, head=Head(), message=user("my order"), context=given, targets=targets)

    @pytest.mark.parametrize("policy", ["default", "adk", "elemental-identity", "staples"])
    def test_a_policy_without_it_decides_nothing(self, policy: str) -> None:
        assert self.after(policy, "returns") is None

    @pytest.mark.parametrize("following", [None, ""])
    def test_nothing_is_decided_when_nobody_is_named(self, following: str | None) -> None:
        assert self.after("elemental-conversational", following) is None

    @pytest.mark.parametrize("stages", [("conversational",), ("patterns", "conversational"), ("conversational", "patterns")])
    def test_the_named_agent_goes_on_wherever_the_stage_stands(self, stages: tuple[str, ...]) -> None:
        selection = self.after(policy_of(*stages), "Returns")
        assert selection is not None
        assert (selection.agent, selection.method, selection.occasion) == ("returns", "conversational", "answer")
        assert [verdict.selector for verdict in selection.verdicts] == ["conversational"]

    @pytest.mark.parametrize(
        ("following", "rule"), [("ghost", "unknown"), ("retired", "disabled"), ("collect", "inside_composite")]
    )
    def test_the_author_keeps_the_floor_when_nobody_may_go_on(self, following: str, rule: str) -> None:
        selection = self.after("elemental-conversational", following)
        assert selection is not None
        assert (selection.agent, selection.method, selection.confidence) == ("orders", "abstained", 0.0)
        assert [each.rule for each in selection.verdicts[0].passed_over] == [rule]

    def test_the_segment_and_the_fingerprint_are_those_of_the_policy(self) -> None:
        spec = policy_of("conversational", segments=(SegmentSpec(name="phone", when={"channel": "phone"}, default="orders"),))
        selection = self.after(spec, "returns", channel="phone")
        assert selection is not None
        assert (selection.segment, selection.fingerprint) == ("phone", Cascade(spec, TREE).fingerprint)
