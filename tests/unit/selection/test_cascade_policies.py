"""What the named policies decide as a whole (A1, A2, A5, B2–B5, C1, C4, C9)."""

from typing import Any

from selection_play import ASKED, SPOKE, decide, stages

from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import positions_of
from turnwise.selection.named import named
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
