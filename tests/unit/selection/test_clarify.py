"""Asking the user on a near tie, and taking the answer (E5)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.sessions import Exchange, Head
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.clarify import Clarify
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import pattern_index
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import request_for

TREE = AgentTree(
    [
        AgentCard(name="root"),
        AgentCard(
            name="orders",
            parent="root",
            description="Tells where a parcel is.",
            examples=("where is my parcel", "track the parcel", "parcel delivery day", "has my parcel shipped"),
        ),
        AgentCard(
            name="returns",
            parent="root",
            description="Takes goods back.",
            examples=("send goods back", "take the kettle back", "it arrived broken", "goods back for money"),
        ),
        AgentCard(
            name="stores",
            parent="root",
            description="Finds a shop.",
            examples=("shop opening hours", "nearest shop in town", "shop address today", "which shop opens sunday"),
            patterns=(Pattern(regex=r"\bshop\b", confidence=0.95),),
        ),
        AgentCard(name="staff", parent="root", roles=("employee",)),
    ]
)


def ranked(*scores: tuple[str, float], stage: str = "semantic") -> Verdict:
    return Verdict(selector=stage, reason="x", candidates=tuple(Candidate(agent=name, score=s) for name, s in scores))


def asking(*verdicts: Verdict, head: Head | None = None, **fields: Any) -> SelectionRequest:
    return replace(request_for(TREE, "it is about my parcel", head=head), verdicts=verdicts, **fields)


OFFERED = Head(
    active_agent="root",
    recent=(Exchange(message="something with my parcel", agent="root"),),
    offered=("orders", "returns"),
    last_reply="Did you mean:",
)


def answer(text: str, head: Head = OFFERED) -> SelectionRequest:
    return request_for(TREE, text, head=head)


def verdict_of(selector: Clarify, request: SelectionRequest) -> Verdict:
    return asyncio.run(selector.select(request))


def with_meaning(**options: Any) -> Clarify:
    meaning = Meaning(TREE, BagOfWordsEncoder())
    return Clarify(meaning=lambda: meaning, patterns=pattern_index(TREE), **options)


class TestAsking:
    def test_a_near_tie_is_asked(self) -> None:
        """E5: ranked choices, as a message and as data."""
        tie = ranked(("orders", 0.42), ("returns", 0.38), ("stores", 0.1))
        verdict = verdict_of(Clarify(), asking(tie))
        assert verdict.outcome == "clarify"
        assert [each.agent for each in verdict.candidates] == ["orders", "returns"]
        assert verdict.question == "Did you mean:\n1. Orders – Tells where a parcel is\n2. Returns – Takes goods back"
        assert verdict.reason == "orders (0.42) and returns (0.38) are too close to tell, so the user is asked."

    def test_its_options(self) -> None:
        """E5: at most so many choices, so near, with so much evidence; its words can be another language's."""
        tie = ranked(("orders", 0.42), ("returns", 0.4), ("stores", 0.38))
        assert len(verdict_of(Clarify(), asking(tie)).candidates) == 3
        assert len(verdict_of(Clarify(choices=2), asking(tie)).candidates) == 2
        assert verdict_of(Clarify(margin=0.01), asking(tie)).outcome == "abstained"
        assert verdict_of(Clarify(evidence=0.5), asking(tie)).outcome == "abstained"
        assert verdict_of(Clarify(question="Meinten Sie:"), asking(tie)).question.startswith("Meinten Sie:\n1. ")

    def test_the_last_ranking_counts_or_the_named_stages(self) -> None:
        first, last = ranked(("orders", 0.5), ("returns", 0.5), stage="one"), ranked(("stores", 0.9), stage="two")
        silent = Verdict(selector="three", reason="x")
        assert verdict_of(Clarify(), asking(first, last, silent)).outcome == "abstained"
        assert verdict_of(Clarify(stage="one"), asking(first, last, silent)).outcome == "clarify"
        assert verdict_of(Clarify(stage="none"), asking(first, last, silent)).outcome == "abstained"

    def test_only_those_are_offered_who_may_be_chosen(self) -> None:
        """C20: and the default agent, who asks, is none of the choices."""
        tie = ranked(("staff", 0.5), ("ghost", 0.5), ("root", 0.5), ("orders", 0.45), ("returns", 0.45))
        assert [each.agent for each in verdict_of(Clarify(), asking(tie)).candidates] == ["orders", "returns"]
        alone = ranked(("staff", 0.5), ("root", 0.5), ("orders", 0.45))
        assert verdict_of(Clarify(), asking(alone)).outcome == "abstained"

    def test_staying_is_preferred_to_asking(self) -> None:
        """E5: a question costs a turn, so who has the conversation keeps it if it fits as well."""
        tie = ranked(("orders", 0.42), ("returns", 0.38), ("stores", 0.1))
        assert verdict_of(Clarify(), asking(tie, head=Head(active_agent="returns"))).outcome == "abstained"
        assert verdict_of(Clarify(), asking(tie, head=Head(active_agent="stores"))).outcome == "clarify"
        assert verdict_of(Clarify(), asking(tie, head=Head(active_agent="root"))).outcome == "clarify"

    def test_it_never_asks_twice_in_a_row(self) -> None:
        """E5: it takes the best instead."""
        tie = ranked(("orders", 0.42), ("returns", 0.38))
        asked_before = replace(answer("hm, what do you think"), verdicts=(tie,))
        verdict = verdict_of(Clarify(), asked_before)
        assert (verdict.outcome, verdict.agent, verdict.method) == ("chosen", "orders", "clarify_skipped")
        assert verdict_of(Clarify(only="question"), asked_before).agent == "orders"
        after = replace(answer("hm", OFFERED.replace(offered=())), verdicts=(tie,))
        assert verdict_of(Clarify(), after).outcome == "clarify"

    def test_nobody_is_offered_for_what_rather_nobody_should_take(self) -> None:
        """C20: an abstention for novelty is no tie."""
        tie = ranked(("orders", 0.42), ("returns", 0.38))
        assert verdict_of(Clarify(), asking(tie.replace(novelty=0.6))).outcome == "abstained"
        assert verdict_of(Clarify(), asking(tie.replace(novelty=0.4))).outcome == "clarify"

    def test_nothing_is_asked_about_an_answer(self) -> None:
        tie = ranked(("orders", 0.42), ("returns", 0.38))
        assert verdict_of(Clarify(), asking(tie, occasion="answer")).outcome == "abstained"
        assert verdict_of(Clarify(only="answer"), asking(tie)).outcome == "abstained"


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("text", "agent"),
        [("2", "returns"), ("the first one", "orders"), ("returns please", "returns"), ("not orders", "returns")],
    )
    def test_a_number_or_a_name_needs_no_encoder(self, text: str, agent: str) -> None:
        """E5"""
        verdict = verdict_of(Clarify(), answer(text))
        assert (verdict.agent, verdict.method, verdict.confidence) == (agent, "clarified", 1.0)
        assert "offered orders, returns" in verdict.reason

    @pytest.mark.parametrize(
        ("text", "agent"),
        [("goods back for my money", "returns"), ("where the parcel is", "orders"), ("track the parcel", "orders")],
    )
    def test_in_other_words(self, text: str, agent: str) -> None:
        """E5: resolved without a model."""
        verdict = verdict_of(with_meaning(), answer(text))
        assert (verdict.agent, verdict.method) == (agent, "clarified_by_meaning")
        assert {each.agent for each in verdict.candidates} == {"orders", "returns"}

    @pytest.mark.parametrize("text", ["which shop opens sunday", "nearest shop in town", "shop"])
    def test_a_new_request_is_left_to_the_others(self, text: str) -> None:
        """E5"""
        assert verdict_of(with_meaning(), answer(text)).outcome == "abstained"

    def test_without_meaning_other_words_are_left_to_the_others(self) -> None:
        assert verdict_of(Clarify(), answer("goods back for my money")).outcome == "abstained"

    def test_neither_goes_to_who_asked(self) -> None:
        """E5"""
        verdict = verdict_of(Clarify(), answer("neither"))
        assert (verdict.agent, verdict.method) == ("root", "clarify_declined")
        assert [(each.agent, each.rule) for each in verdict.passed_over] == [("orders", "declined"), ("returns", "declined")]
        assert verdict_of(Clarify(default="stores"), answer("none of these")).agent == "stores"

    def test_neither_and_more_is_a_new_request_to_others(self) -> None:
        """E5"""
        verdict = verdict_of(with_meaning(), answer("neither, where is my parcel"))
        assert verdict.outcome == "abstained"
        assert [each.agent for each in verdict.passed_over] == ["orders", "returns"]

    def test_who_may_not_be_chosen_now_is_not_counted(self) -> None:
        """C20: numbers are those that were shown; nobody who was shut out since is chosen by one."""
        shut = replace(answer("1"), eligible=("root", "returns", "stores"))
        assert verdict_of(Clarify(), shut).agent is None
        assert verdict_of(Clarify(), replace(shut, message=answer("2").message)).agent == "returns"

    def test_only_question_reads_no_answer(self) -> None:
        assert verdict_of(Clarify(only="question"), answer("2")).outcome == "abstained"

    def test_a_message_without_words(self) -> None:
        assert verdict_of(with_meaning(), answer(" ")).outcome == "abstained"
