"""The cascade: who is asked, what is recorded, and what cannot happen (A1–A7, B2–B5, C1, C4, C7, C10, C18–C20, E1, E9)."""

import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from turnwise.facts.cards import AgentCard, Pattern
from turnwise.facts.content import Content, ToolResultPart, text_content
from turnwise.facts.errors import EncoderError, NobodyEligible, PatternError, PolicyError
from turnwise.facts.events import Await
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenCall, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade, positions_of
from turnwise.selection.named import named
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import answer_of


def card(name: str, *patterns: tuple[str, float], **fields: Any) -> AgentCard:
    found = tuple(Pattern(regex=regex, confidence=confidence) for regex, confidence in patterns)
    return AgentCard(**{"name": name, "parent": "root", "kind": "llm", "patterns": found, **fields})


TREE = AgentTree(
    [
        card("root", parent=None),
        card("orders", ("order", 0.8), ("where is my order", 0.95)),
        card("returns", ("return", 0.85)),
        card("staff", ("payroll", 0.9), roles=("employee",)),
        card("report", kind="sequential"),
        card("collect", parent="report"),
        card("expert", routable=False),
        card("retired", ("order", 1.0), enabled=False),
    ]
)
SPOKE = Head(authors={"returns": AuthorMark(spoke=4), "orders": AuthorMark(spoke=2)}, active_agent="returns")
ASKED = SPOKE.model_copy(
    update={
        "invocations": {
            "i": OpenInvocation(agent="returns", state="waiting", began=3, last=4, waits=(("returns", Await(id="w")),))
        }
    }
)


def user(text: str) -> Content:
    return text_content(text, "user")


async def decide(
    text: str | Content = "", policy: str | PolicySpec = "default", *, tree: AgentTree = TREE, custom: Any = None, **facts: Any
) -> Selection:
    spec = named(policy) if isinstance(policy, str) else policy
    message = user(text) if isinstance(text, str) else text
    return await Cascade(spec, tree, custom).decide(**{"head": Head(), "message": message, **facts})


def stages(selection: Selection) -> list[tuple[str, str]]:
    return [(verdict.selector, verdict.outcome) for verdict in selection.verdicts]


def policy_of(*selectors: str, **fields: Any) -> PolicySpec:
    return PolicySpec(stages=tuple(StageSpec(selector=each) for each in selectors), **fields)


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
        lead = named("elemental-identity", options={"identity": {"lead": "orders"}})
        assert (await decide("return", lead, head=SPOKE)).agent == "orders"
        assert (await decide("return", "elemental-identity", head=SPOKE)).agent == "root"

    async def test_iterative_takes_its_place_from_the_head_and_gives_it_back(self) -> None:
        """B3"""
        spec = named("elemental-iterative", options={"iterative": {"order": ["orders", "returns"]}})
        chosen, head = [], Head()
        for _ in range(3):
            selection = await decide("x", spec, head=head)
            chosen.append(selection.agent)
            head = head.model_copy(update={"positions": head.positions | positions_of(selection)})
        assert chosen == ["orders", "returns", "orders"]
        assert positions_of(selection) == {"iterative": 1}

    async def test_conversational_reads_the_answer_and_never_the_user(self) -> None:
        """B4, B5"""
        spec = named("elemental-conversational", default="returns")
        selection = await decide("<next>@orders</next>", spec)
        assert (selection.agent, selection.method) == ("returns", "lead_fallback")
        assert len(selection.verdicts[0].ignored) == 1
        told = await decide("x", spec, occasion="answer", answer=answer_of("returns", following="orders"))
        assert (told.agent, told.occasion) == ("orders", "answer")


class TestToolResults:
    """A6, A7: built in to every policy."""

    @staticmethod
    def head_of(agent: str) -> Head:
        return ASKED.model_copy(update={"calls": {"c": OpenCall(agent=agent, invocation_id="i", tool="t")}})

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
        cascade = Cascade(named("default"), TREE)
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


class Own:
    """A selector whose answer the test gives; it remembers nothing but what it was asked."""

    name = "own"

    def __init__(self, tree: AgentTree, *, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[SelectionRequest] = []

    async def select(self, request: SelectionRequest) -> Verdict:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


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
        assert positions_of(selection) == {}

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
        assert positions_of(selection) == {"rota": 9}


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
            (SegmentSpec(when={"weather": "fine"}), "'weather' is no condition"),
            (SegmentSpec(when={}), "it has no condition"),
            (SegmentSpec(when={"channel": "x"}, options={"resume": {}}), "no stage 'resume'"),
            (SegmentSpec(when={"channel": "x"}, options={"patterns": {"threshold": 7}}), "'threshold'"),
            (SegmentSpec(when={"channel": "x"}, default="ghost"), "no agent 'ghost'"),
        ],
    )
    def test_mistakes_are_found_when_it_is_made(self, segment: SegmentSpec, says: str) -> None:
        with pytest.raises(PolicyError, match=says):
            Cascade(self.SPEC.model_copy(update={"segments": (segment,)}), TREE)


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
            Cascade(named("default"), AgentTree([card("root", ("(?=x)", 0.5), parent=None)]))


class TestTheRecord:
    """C10, E1"""

    async def test_it_holds_everything_the_decision_rests_on(self) -> None:
        """C10, E1"""
        cascade = Cascade(named("default"), TREE)
        selection = await cascade.decide(head=ASKED, message=user("hm"))
        assert selection.policy == "default"
        assert selection.fingerprint == cascade.fingerprint
        assert selection.tree_version == TREE.version
        assert selection.occasion == "message"
        assert selection.reason == selection.verdicts[-1].reason == "returns asked the user and waits for the reply."
        assert all(verdict.reason and verdict.ms >= 0 for verdict in selection.verdicts)
        assert selection.ms >= max(verdict.ms for verdict in selection.verdicts)
        assert Selection.model_validate_json(selection.model_dump_json()) == selection

    def test_the_fingerprint_changes_with_whatever_decides(self) -> None:
        """C10, E9"""

        def of(spec: PolicySpec) -> str:
            return Cascade(spec, TREE, {"own": Own}).fingerprint

        base = PolicySpec(stages=(StageSpec(selector="patterns"), StageSpec(selector="own")))
        explicit = base.with_options({"patterns": {"threshold": 0.7, "margin": None}})
        assert of(base) == of(base.model_copy(update={"name": "renamed"})) == of(explicit)
        others = [
            base.with_options({"patterns": {"threshold": 0.71}}),
            base.with_options({"own": {"answer": 1}}),
            base.with_options({}, default="orders"),
            base.model_copy(update={"stages": base.stages[::-1]}),
            base.model_copy(update={"stages": base.stages[:1]}),
            base.model_copy(update={"segments": (SegmentSpec(when={"channel": "x"}),)}),
        ]
        assert len({of(each) for each in (base, *others)}) == len(others) + 1

    async def test_equal_facts_decide_equally_whatever_came_before(self) -> None:
        """E9"""
        cascade = Cascade(named("default"), TREE)
        facts = [(SPOKE, "yes"), (ASKED, "12"), (Head(), "my order"), (SPOKE, "return")]
        first = [plain(await cascade.decide(head=head, message=user(text))) for head, text in facts]
        again = [plain(await cascade.decide(head=head, message=user(text))) for head, text in reversed(facts)]
        other = [plain(await decide(text, head=head)) for head, text in facts]
        assert first == again[::-1] == other


def plain(selection: Selection) -> Selection:
    verdicts = tuple(verdict.model_copy(update={"ms": 0.0}) for verdict in selection.verdicts)
    return selection.model_copy(update={"verdicts": verdicts, "ms": 0.0})


_ELSEWHERE = """
import asyncio
from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named
from turnwise.testing.selector_suite import sample_tree
selection = asyncio.run(Cascade(named("default"), sample_tree()).decide(head=Head(), message=text_content("stores", "user")))
print(selection.agent, selection.fingerprint, selection.tree_version, [e.agent for e in selection.excluded])
"""


def test_another_process_decides_the_same() -> None:
    """E9: whatever the seed of its hashes."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert said.pop().startswith("Stores Nearby ")


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


class TestMeaning:
    WORDED = AgentTree(
        [
            AgentCard(name="root"),
            AgentCard(name="orders", parent="root", examples=("where is the parcel", "track my parcel")),
            AgentCard(name="returns", parent="root", examples=("take the goods back", "refund for goods")),
        ]
    )
    SPEC = policy_of("semantic")

    async def test_it_is_made_once_and_prepared_once(self) -> None:
        encoder = BagOfWordsEncoder()
        spec = PolicySpec(stages=(StageSpec(selector="semantic"), StageSpec(selector="semantic", name="again")))
        cascade = Cascade(spec, self.WORDED, encoder=encoder)
        assert encoder.calls == 0, "Making a cascade encodes nothing."
        await cascade.prepare()
        before = encoder.calls
        await cascade.prepare()
        assert encoder.calls == before
        selection = await cascade.decide(head=Head(), message=user("track the parcel"))
        assert (selection.agent, selection.method) == ("orders", "semantic_match")
        cascade.close()
        cascade.close()

    async def test_the_first_decision_prepares(self) -> None:
        selection = await Cascade(self.SPEC, self.WORDED, encoder=BagOfWordsEncoder()).decide(
            head=Head(), message=user("track the parcel")
        )
        assert selection.agent == "orders"

    async def test_the_fingerprint_tells_what_meaning_rests_on(self) -> None:
        """E9: encoder, phrases, and what is fitted to them; equal ones are equal in every process."""

        class Other(BagOfWordsEncoder):
            fingerprint = "another"

        async def of(tree: AgentTree, encoder: BagOfWordsEncoder) -> str:
            cascade = Cascade(self.SPEC, tree, encoder=encoder)
            await cascade.prepare()
            selection = await cascade.decide(head=Head(), message=user("x"))
            assert selection.fingerprint == cascade.fingerprint
            return selection.fingerprint

        cards = list(self.WORDED)
        changed = AgentTree([*cards[:-1], cards[-1].model_copy(update={"examples": ("something else",)})])
        first = await of(self.WORDED, BagOfWordsEncoder())
        assert await of(self.WORDED, BagOfWordsEncoder()) == first
        assert len({first, await of(self.WORDED, Other()), await of(changed, BagOfWordsEncoder())}) == 3

    async def test_texts_that_cannot_be_encoded_are_an_abstention_and_told_when_prepared(self) -> None:
        """A broken selector never ends a turn."""

        class Broken(BagOfWordsEncoder):
            def encode(self, texts: Any) -> Any:
                raise EncoderError("The encoder is away.")

        cascade = Cascade(policy_of("semantic", "resume"), self.WORDED, encoder=Broken())
        with pytest.raises(EncoderError):
            await cascade.prepare()
        selection = await cascade.decide(head=SPOKE, message=user("track the parcel"))
        assert (selection.agent, selection.method) == ("returns", "resume")
        assert selection.verdicts[0].reason == "It raised EncoderError, so it was passed over."

    def test_the_options_of_its_stages_can_be_read(self) -> None:
        segment = SegmentSpec(when={"channel": "voice"}, options={"semantic": {"threshold": 0.9}})
        cascade = Cascade(self.SPEC.model_copy(update={"segments": (segment,)}), self.WORDED, encoder=BagOfWordsEncoder())
        semantic = {"threshold": 0.5, "top": 3, "margin": None, "novelty": None, "score": "similarity"}
        assert cascade.options() == {"semantic": semantic, "default": {"agent": None, "confidence": 0.6}}
        assert cascade.options("channel=voice")["semantic"] == {**semantic, "threshold": 0.9}
        assert cascade.options("unknown") == {}
