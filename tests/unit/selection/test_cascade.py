"""The cascade: who is asked, who may be chosen, and what cannot happen (A6–A8, C7, C18–C20, E5)."""

import logging
from typing import Any

import pytest
from selection_play import ASKED, SPOKE, TREE, Own, card, decide, policy_of, stages, user

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import NobodyEligible, PatternError, PolicyError
from turnwise.facts.events import Await
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenCall, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade, moved_positions
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec
from turnwise.testing.selector_suite import answer_of


class TestToolResults:
    """A6, A7: built in to every policy."""

    @staticmethod
    def head_of(agent: str) -> Head:
        return ASKED.replace(calls={"c": OpenCall(agent=agent, invocation_id="i", tool="t")})

    RESULT = Content(role="user", parts=(ToolResultPart(call_id="c", result=1),))

    @pytest.mark.parametrize("policy", ["default", "adk", "elemental-identity", "elemental-conversational"])
    @pytest.mark.parametrize("agent", ["orders", "collect", "expert", "report"])
    async def test_the_author_of_the_call_whatever_its_flags_or_kind(self, policy: str, agent: str) -> None:
        """A6"""
        context = MessageContext(direct_agent_id="orders")
        selection = await decide(self.RESULT, policy, head=self.head_of(agent), context=context, resting=frozenset({agent}))
        assert (selection.agent, selection.method) == (agent, "tool_result")

    @pytest.mark.parametrize("agent", ["ghost", "retired", "staff"])
    async def test_gone_or_out_of_reach_the_scan_is_as_usual(self, agent: str) -> None:
        """A7, C20"""
        selection = await decide(self.RESULT, "adk", head=self.head_of(agent))
        assert selection.agent == "returns"
        assert stages(selection) == [("tool_result", "abstained"), ("resume", "chosen")]

    async def test_only_a_message_brings_one(self) -> None:
        selection = await decide(self.RESULT, head=self.head_of("orders"), occasion="answer", answer=answer_of("returns"))
        assert selection.method == "default_fallback"

    async def test_an_unknown_call_never_raises_here(self) -> None:
        """A8: the runner refused it before."""
        assert (await decide(self.RESULT, head=SPOKE)).agent == "returns"


class TestWhoMayBeChosen:
    async def test_the_record_names_the_excluded_and_why(self) -> None:
        """C10, C20"""
        selection = await decide("order")
        assert {each.agent: each.rule for each in selection.excluded} == {
            "staff": "role",
            "collect": "inside_composite",
            "expert": "not_routable",
            "retired": "disabled",
        }
        assert selection.excluded_count == 4
        assert selection.agent == "orders"

    async def test_roles_open_agents(self) -> None:
        """C20"""
        assert (await decide("payroll")).agent == "root"
        cascade = Cascade(named_policy("default"), TREE)
        for roles, agent in ((("employee",), "staff"), ((), "root"), (("employee", "x"), "staff"), (("x",), "root")):
            selection = await cascade.decide(head=Head(), message=user("payroll"), context=MessageContext(roles=roles))
            assert selection.agent == agent

    async def test_resting_agents_are_left_alone(self) -> None:
        """C20"""
        assert (await decide("return", head=SPOKE, resting=frozenset({"returns"}))).agent == "orders"
        asked = await decide("12", head=ASKED, resting=frozenset({"returns"}))
        assert (asked.agent, [each.rule for each in asked.verdicts[-1].passed_over]) == ("orders", ["resting"])

    async def test_long_lists_are_counted_not_copied(self) -> None:
        crowd = AgentTree([card("root", parent=None), *(card(f"a{i}", enabled=False) for i in range(200))])
        selection = await decide("x", tree=crowd)
        assert (len(selection.excluded), selection.excluded_count) == (50, 200)

    async def test_among_narrows_it_down(self) -> None:
        """B7"""
        assert (await decide("order", among=("collect", "returns"))).agent == "returns"
        assert (await decide("hello", among=("collect",))).agent == "collect"

    async def test_an_agent_that_is_not_routable_keeps_what_it_was_handed(self) -> None:
        head = Head(authors={"expert": AuthorMark(spoke=5, handed=4), "orders": AuthorMark(spoke=4)})
        assert (await decide("and?", head=head)).agent == "expert"

    async def test_one_inside_a_composite_that_asked_on_its_own_gets_the_reply(self) -> None:
        open_ = OpenInvocation(agent="collect", state="waiting", began=1, last=2, waits=(("collect", Await(id="w")),))
        head = Head(authors={"collect": AuthorMark(spoke=2)}, invocations={"i": open_})
        selection = await decide("12", head=head)
        assert (selection.agent, selection.verdicts[-1].selector) == ("collect", "awaited")

    async def test_the_default_then_the_root_then_anybody(self) -> None:
        """A5, C7"""
        assert (await decide("x", policy_of(default="orders"))).agent == "orders"
        assert (await decide("x", policy_of(default="retired"))).agent == "root"
        assert (await decide("x", policy_of(default="expert"))).agent == "expert"
        assert (await decide("x", policy_of(), resting=frozenset({"root"}))).agent == "orders"

    async def test_nobody_at_all(self) -> None:
        closed = AgentTree([card("root", parent=None, roles=("r",)), card("a")])
        with pytest.raises(NobodyEligible, match="roles"):
            await decide("x", tree=closed)
        assert (await decide("x", tree=closed, context=MessageContext(roles=("r",)))).agent == "root"


async def with_own(answer: Any, **facts: Any) -> Selection:
    return await decide("hi", policy_of("own"), custom={"own": lambda tree: Own(tree, answer=answer)}, **facts)


class TestSelectorsOfOnesOwn:
    async def test_it_chooses(self) -> None:
        verdict = Verdict(selector="x", outcome="chosen", agent="orders", method="mine", confidence=0.4, reason="because")
        selection = await with_own(verdict)
        assert (selection.agent, selection.method, selection.confidence, selection.reason) == ("orders", "mine", 0.4, "because")
        assert stages(selection) == [("own", "chosen")]

    @pytest.mark.parametrize("agent", ["staff", "retired", "collect", "expert", "ghost", None])
    async def test_it_cannot_choose_who_may_not_be_chosen(self, agent: str | None) -> None:
        """C20"""
        selection = await with_own(Verdict(selector="own", outcome="chosen", agent=agent, method="m", position=1))
        assert selection.agent == "root"
        assert stages(selection) == [("own", "abstained"), ("default", "chosen")]
        assert "passed over" in selection.verdicts[0].reason
        assert moved_positions(selection) == {}

    async def test_what_it_raises_does_not_end_the_turn_nor_reach_the_record(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            selection = await with_own(ValueError("the password is swordfish"))
        assert selection.agent == "root"
        assert selection.verdicts[0].reason == "It raised ValueError, so it was passed over."
        assert "swordfish" not in selection.model_dump_json() + caplog.text
        assert "'own' raised ValueError" in caplog.text

    async def test_what_is_no_verdict_is_passed_over(self) -> None:
        assert stages(await with_own("orders")) == [("own", "abstained"), ("default", "chosen")]

    async def test_it_may_ask_to_clarify(self) -> None:
        """E5: the default agent asks."""
        offered = tuple(Candidate(agent=name, score=0.5) for name in ("orders", "returns"))
        selection = await with_own(
            Verdict(selector="own", outcome="clarify", candidates=offered, confidence=0.5, reason="A near tie.")
        )
        assert (selection.outcome, selection.agent, selection.method, selection.reason) == (
            "clarify",
            "root",
            "clarify",
            "A near tie.",
        )
        assert [each.agent for each in selection.verdicts[-1].candidates] == ["orders", "returns"]

    async def test_it_keeps_its_place_under_the_stages_name(self) -> None:
        """B3"""
        made: list[Own] = []
        verdict = Verdict(selector="own", outcome="chosen", agent="orders", method="m", position=9)

        def factory(tree: AgentTree) -> Own:
            made.append(Own(tree, answer=verdict))
            return made[-1]

        spec = PolicySpec(stages=(StageSpec(selector="mine:make", name="rota"),))
        head = Head(positions={"rota": 8, "own": 1})
        selection = await decide("x", spec, custom={"mine:make": factory}, head=head)
        assert made[0].asked[0].positions["own"] == 8
        assert moved_positions(selection) == {"rota": 9}


class TestSegments:
    """C18"""

    SPEC = PolicySpec(
        name="p",
        stages=(StageSpec(selector="patterns"),),
        segments=(
            SegmentSpec(when={"channel": "voice", "user_kind": "guest"}, default="expert"),
            SegmentSpec(when={"channel": "voice"}, options={"patterns": {"threshold": 0.82}}, default="returns", name="calls"),
        ),
    )

    @pytest.mark.parametrize(
        ("context", "agent", "segment"),
        [
            ({}, "orders", None),
            ({"channel": "web"}, "orders", None),
            ({"channel": "voice"}, "returns", "calls"),
            ({"channel": "voice", "user_kind": "guest"}, "orders", "channel=voice, user_kind=guest"),
        ],
    )
    async def test_the_first_that_applies_counts(self, context: dict[str, str], agent: str, segment: str | None) -> None:
        """C18"""
        selection = await decide("my order", self.SPEC, context=MessageContext(**context))  # type: ignore[arg-type]
        assert (selection.agent, selection.segment) == (agent, segment)

    async def test_a_segments_default_is_the_lead_there(self) -> None:
        spec = PolicySpec(
            stages=(StageSpec(selector="identity"),), segments=(SegmentSpec(when={"channel": "voice"}, default="returns"),)
        )
        assert (await decide("x", spec)).agent == "root"
        assert (await decide("x", spec, context=MessageContext(channel="voice"))).agent == "returns"

    @pytest.mark.parametrize(
        ("segment", "says"),
        [
            (SegmentSpec(when={"weather": "fine"}), "'weather' is not a condition"),
            (SegmentSpec(when={}), "it has no condition"),
            (SegmentSpec(when={"channel": "x"}, options={"resume": {}}), "no stage 'resume'"),
            (SegmentSpec(when={"channel": "x"}, options={"patterns": {"threshold": 7}}), "'threshold'"),
            (SegmentSpec(when={"channel": "x"}, default="ghost"), "no agent 'ghost'"),
        ],
    )
    def test_mistakes_are_found_when_it_is_made(self, segment: SegmentSpec, says: str) -> None:
        with pytest.raises(PolicyError, match=says):
            Cascade(self.SPEC.replace(segments=(segment,)), TREE)


class TestMakingOne:
    def test_an_unknown_default_agent(self) -> None:
        with pytest.raises(PolicyError, match="'default': there is no agent 'ghost'"):
            Cascade(policy_of(default="ghost"), TREE)

    def test_nothing_comes_after_the_default(self) -> None:
        with pytest.raises(PolicyError, match="after 'default' would never be asked"):
            Cascade(policy_of("default", "resume"), TREE)

    async def test_the_default_can_be_a_stage_with_options(self) -> None:
        """C7: its confidence is policy."""
        spec = PolicySpec(stages=(StageSpec(selector="default", name="last", options={"confidence": 0.1, "agent": "orders"}),))
        selection = await decide("x", spec)
        assert (selection.agent, selection.confidence, stages(selection)) == ("orders", 0.1, [("last", "chosen")])

    def test_a_bad_pattern_is_found(self) -> None:
        with pytest.raises(PatternError):
            Cascade(named_policy("default"), AgentTree([card("root", ("(?=x)", 0.5), parent=None)]))


class Ranks:
    """Ranks two agents alike, and chooses nobody."""

    def __init__(self, tree: AgentTree) -> None:
        self.name = "ranks"

    async def select(self, request: SelectionRequest) -> Verdict:
        both = tuple(Candidate(agent=name, score=0.4) for name in ("orders", "returns") if name in request.eligible)
        return Verdict(selector="ranks", reason="Torn.", candidates=both)


class TestClarifying:
    """E5"""

    POLICY = PolicySpec(
        stages=(
            StageSpec(selector="clarify", name="choice", options={"only": "answer"}),
            StageSpec(selector="ranks"),
            StageSpec(selector="clarify"),
        )
    )
    OFFERED = Head(active_agent="root", offered=("orders", "returns"))

    async def test_a_stage_sees_what_those_before_it_said(self) -> None:
        """E5: the near tie of another stage is what is asked about."""
        selection = await decide("hm", self.POLICY, custom={"ranks": Ranks})
        assert (selection.outcome, selection.agent, selection.method) == ("clarify", "root", "clarify")
        assert selection.verdicts[-1].question == "Did you mean:\n1. Orders\n2. Returns"

    async def test_whom_the_user_turned_down_nobody_chooses_for_this_message(self) -> None:
        """E5: "neither, …" goes on to the other stages without those that were offered."""
        selection = await decide("neither, but an order", self.POLICY, custom={"ranks": Ranks}, head=self.OFFERED)
        assert selection.agent == "root"
        assert [each.candidates for each in selection.verdicts if each.selector == "ranks"] == [()]

    async def test_a_choice_is_a_decision(self) -> None:
        selection = await decide("2", self.POLICY, custom={"ranks": Ranks}, head=self.OFFERED)
        assert (selection.agent, selection.method, stages(selection)) == ("returns", "clarified", [("choice", "chosen")])
