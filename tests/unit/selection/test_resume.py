"""Who goes on with the conversation (A2 to A5, A9 to A13)."""

from dataclasses import replace

import pytest
from resume_play import ABC, FAILURE, asks, card, event, head_of, passed, resumed, says, tree_of

from turnwise.facts.events import Await, End
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.selection.resume import Resume
from turnwise.testing.selector_suite import answer_of, request_for


class TestTheScan:
    async def test_nobody_has_spoken(self) -> None:
        """A1"""
        verdict = await resumed(ABC, [asks("a")])
        assert (verdict.outcome, verdict.reason) == ("abstained", "Nobody has spoken yet.")

    async def test_whoever_spoke_last(self) -> None:
        """A2"""
        verdict = await resumed(ABC, [asks("a"), says("a"), asks("b", "i2"), says("b"), event("user", "x")])
        assert (verdict.agent, verdict.method, verdict.reason) == ("b", "resume", "b spoke last.")

    async def test_the_scan_goes_on_past_the_root_to_older_authors(self) -> None:
        """A2: it does not stop at the root."""
        tree = AgentTree([card("root", None, resume="never"), card("a")])
        verdict = await resumed(tree, [says("a"), says("root")])
        assert (verdict.agent, passed(verdict)) == ("a", [("root", "not_resumable")])
        assert verdict.reason == "a spoke last of those who may go on; root may not."

    async def test_an_unknown_author_is_passed_over_and_recorded(self) -> None:
        """A4, A13"""
        verdict = await resumed(ABC, [says("a"), says("ghost")])
        assert (verdict.agent, passed(verdict)) == ("a", [("ghost", "unknown")])

    async def test_none_qualifies(self) -> None:
        """A5"""
        verdict = await resumed(tree_of(card("a", resume="never")), [says("a"), says("ghost")])
        assert (verdict.outcome, passed(verdict)) == ("abstained", [("ghost", "unknown"), ("a", "not_resumable")])

    async def test_not_when_a_stage_before_found_it_nobodys(self) -> None:
        """C20: but who asked gets the reply."""
        said = [asks("a"), says("a")]
        request = replace(request_for(ABC, head=head_of(said)), verdicts=(Verdict(selector="x", reason="r", novelty=0.7),))
        assert (await Resume(novelty=0.5).select(request)).outcome == "abstained"
        assert (await Resume(novelty=0.8).select(request)).agent == "a"
        assert (await Resume().select(request)).agent == "a"
        waits = replace(request, head=head_of([*said[:1], event("a", "which?", awaits=Await(id="w"))]))
        assert (await Resume(novelty=0.5).select(waits)).agent == "a"

    async def test_it_is_for_messages(self) -> None:
        request = request_for(ABC, head=head_of([says("a")]), occasion="answer", answer=answer_of("a"))
        assert (await Resume().select(request)).outcome == "abstained"

    async def test_who_is_not_eligible_is_passed_over_by_its_rule(self) -> None:
        """C20, A13"""
        tree = tree_of(card("a"), card("off", enabled=False), card("staff", roles=("r",)))
        verdict = await resumed(tree, [says("a"), says("staff"), says("off")])
        assert (verdict.agent, passed(verdict)) == ("a", [("off", "disabled"), ("staff", "role")])

    async def test_who_is_not_routable_goes_on_with_what_it_was_handed(self) -> None:
        tree = tree_of(card("a", routable=False))
        assert (await resumed(tree, [asks("root"), event("root", None, transfer_to="a"), says("a")])).agent == "a"

    async def test_one_step_for_each_author(self) -> None:
        """A9: however often each has spoken."""
        log = [says(name) for _ in range(50) for name in ("ghost", "phantom", "a", "spirit")]
        assert passed(await resumed(ABC, log)) == [("spirit", "unknown")]
        log = [*log, *(says(name) for _ in range(50) for name in ("ghost", "phantom"))]
        assert passed(await resumed(ABC, log)) == [("phantom", "unknown"), ("ghost", "unknown"), ("spirit", "unknown")]


class TestPermission:
    @pytest.mark.parametrize("kind", ["function", "remote", "llm"])
    async def test_our_rule_counts_every_kind_that_speaks(self, kind: str) -> None:
        """A3"""
        assert (await resumed(tree_of(card("a", kind=kind)), [says("a")])).agent == "a"

    @pytest.mark.parametrize("kind", ["function", "remote", "sequential", "team"])
    async def test_the_reference_counts_llm_agents_only(self, kind: str) -> None:
        """A3"""
        itself = tree_of(card("a", kind=kind))
        assert passed(await resumed(itself, [says("a")], rule="adk")) == [("a", "not_resumable")]
        above = tree_of(card("boss", kind=kind), card("a", "boss"))
        verdict = await resumed(above, [says("a")], rule="adk")
        assert passed(verdict) == [("a", "forbidden")]
        assert verdict.passed_over[0].detail == f"boss above it is a {kind} agent, not an LLM agent"

    @pytest.mark.parametrize("rule", ["tree", "adk"])
    @pytest.mark.parametrize("culprit", ["root", "boss", "a"])
    async def test_a_forbidding_agent_anywhere_on_the_chain_forbids(self, rule: str, culprit: str) -> None:
        """A3, A13: the root included; the record names it."""
        plain = {"root": card("root", None), "boss": card("boss"), "a": card("a", "boss")}
        cards = [each.replace(disallow_transfer_to_parent=name == culprit) for name, each in plain.items()]
        verdict = await resumed(AgentTree(cards), [says("a")], rule=rule)
        assert passed(verdict) == [("a", "forbidden")]
        assert verdict.passed_over[0].detail == f"{culprit} disallows the transfer to its parent"

    @pytest.mark.parametrize("rule", ["tree", "adk"])
    async def test_the_peers_flag_plays_no_part(self, rule: str) -> None:
        """A3"""
        tree = tree_of(card("boss", disallow_transfer_to_peers=True), card("a", "boss", disallow_transfer_to_peers=True))
        assert (await resumed(tree, [says("a")], rule=rule)).agent == "a"

    async def test_may_be_resumed_is_a_field_of_its_own(self) -> None:
        """A12"""
        never = tree_of(card("a", resume="never"))
        assert passed(await resumed(never, [says("a")])) == [("a", "not_resumable")]
        always = tree_of(card("a", resume="always", disallow_transfer_to_parent=True))
        assert (await resumed(always, [says("a")])).agent == "a"
        assert (await resumed(always, [says("a")], rule="adk")).agent == "a"

    async def test_a_forbidding_ancestor_is_stronger_than_always(self) -> None:
        """A12"""
        tree = tree_of(card("boss", disallow_transfer_to_parent=True, resume="always"), card("a", "boss", resume="always"))
        assert passed(await resumed(tree, [says("a")])) == [("a", "forbidden")]
        assert (await resumed(tree, [says("boss")])).agent == "boss"

    @pytest.mark.parametrize("kind", ["sequential", "parallel", "loop", "team"])
    async def test_composites_and_those_they_run_are_passed_over(self, kind: str) -> None:
        """A3"""
        tree = tree_of(card("b"), card("all", kind=kind), card("a", "all"), card("deep", "a"))
        log = [says("b"), event("b", None, transfer_to="all"), says("deep"), says("a")]
        verdict = await resumed(tree, log)
        assert (verdict.agent, passed(verdict)) == ("b", [("a", "forbidden"), ("deep", "forbidden"), ("all", "not_resumable")])
        assert verdict.passed_over[0].detail == f"all above it is a {kind} agent and runs it"


class TestTurnsThatCameToNothing:
    """A10, A13"""

    async def test_an_error_does_not_make_its_author_resume(self) -> None:
        """A10, A13"""
        log = [asks("a"), says("a"), asks("b", "i2"), event("b", None, invocation="i2", error=FAILURE)]
        verdict = await resumed(ABC, log)
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "failed")])

    async def test_a_blocked_answer_does_not_make_its_author_resume(self) -> None:
        """A10, A13"""
        verdict = await resumed(ABC, [says("a"), event("b", "no", blocked_by="g")])
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "skipped")])

    async def test_a_silent_end_does_not_make_its_author_resume(self) -> None:
        """A10, A13"""
        verdict = await resumed(ABC, [says("a"), asks("b", "i2"), event("b", None, invocation="i2", end=End())])
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "skipped")])

    async def test_what_it_said_before_still_counts_at_its_place(self) -> None:
        log = [says("b"), says("a"), event("b", None, error=FAILURE)]
        verdict = await resumed(ABC, log)
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "failed")])
        again = await resumed(ABC, [says("a"), says("b"), event("b", None, error=FAILURE)])
        assert (again.agent, passed(again)) == ("b", [])

    async def test_always_lets_a_silent_turn_count(self) -> None:
        """A12"""
        tree = tree_of(card("a"), card("b", resume="always"))
        log = [says("a"), asks("b", "i2"), event("b", None, invocation="i2", end=End())]
        assert (await resumed(tree, log)).agent == "b"
        handed = [asks("a"), event("a", None, transfer_to="b"), event("b", None, end=End())]
        assert (await resumed(tree, handed)).agent == "b"

    async def test_always_does_not_let_an_error_count(self) -> None:
        tree = tree_of(card("a"), card("b", resume="always"))
        assert (await resumed(tree, [says("a"), event("b", None, error=FAILURE)])).agent == "a"


class TestHandOvers:
    """A11"""

    CRASH = (asks("a"), says("a"), event("a", None, transfer_to="b"))

    async def test_a_target_that_never_answered_resumes(self) -> None:
        """A11"""
        verdict = await resumed(ABC, self.CRASH)
        assert (verdict.agent, verdict.reason) == ("b", "b was handed the floor and has not answered.")

    @pytest.mark.parametrize("end", ["failed", "limit:invocation_seconds"])
    async def test_a_target_that_failed_had_its_turn(self, end: str) -> None:
        """A10: the reference gets stuck there."""
        for log in (
            [*self.CRASH, event("b", None, error=FAILURE), event("b", None, end=End(reason=end))],
            [*self.CRASH, event("b", None, end=End(reason=end))],
        ):
            verdict = await resumed(ABC, log)
            assert (verdict.agent, passed(verdict)) == ("a", [("b", "failed")])

    async def test_cancelled_before_it_answered(self) -> None:
        """A11"""
        assert (await resumed(ABC, [*self.CRASH, event("b", None, end=End(reason="cancelled"))])).agent == "b"

    async def test_who_gave_it_up_without_a_word_does_not(self) -> None:
        """A11, A13"""
        verdict = await resumed(ABC, [*self.CRASH, event("b", None, end=End())])
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "skipped")])

    async def test_only_if_it_is_permitted(self) -> None:
        """A11"""
        tree = tree_of(card("a"), card("b", disallow_transfer_to_parent=True))
        verdict = await resumed(tree, self.CRASH)
        assert (verdict.agent, passed(verdict)) == ("a", [("b", "forbidden")])

    async def test_after_it_answered_it_spoke_last(self) -> None:
        verdict = await resumed(ABC, [*self.CRASH, says("b")])
        assert (verdict.agent, verdict.reason) == ("b", "b spoke last.")

    async def test_handed_back_and_forth(self) -> None:
        log = [asks("a"), event("a", None, transfer_to="b"), event("b", None, transfer_to="a")]
        assert (await resumed(ABC, log)).agent == "a"
