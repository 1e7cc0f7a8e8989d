"""Whoever asked the user gets the reply (A3, C9)."""

from typing import Any

import pytest
from resume_play import ABC, FAILURE, asks, card, event, head_of, passed, resumed, says, tree_of

from turnwise.facts.events import Await, Event
from turnwise.selection.resume import Resume
from turnwise.testing.selector_suite import request_for


class TestOpenQuestions:
    """A3, C9: an agent that waits for a reply gets it."""

    @staticmethod
    def question(agent: str, asker: str, invocation: str = "i1") -> list[Event]:
        return [
            asks(agent, invocation),
            event(asker, "Your number?", invocation=invocation, awaits=Await(id=f"w-{invocation}")),
        ]

    async def test_who_asked_gets_the_reply(self) -> None:
        """C9: with an agent that asked, the reply stays."""
        for options in ({}, {"only": "awaiting"}):
            verdict = await resumed(ABC, self.question("a", "a"), **options)
            assert (verdict.agent, verdict.reason) == ("a", "a asked the user and waits for the reply.")

    @pytest.mark.parametrize("fields", [{"resume": "never"}, {"disallow_transfer_to_parent": True}, {"routable": False}])
    async def test_whatever_its_permissions(self, fields: dict[str, Any]) -> None:
        assert (await resumed(tree_of(card("a", **fields)), self.question("a", "a"))).agent == "a"

    async def test_not_in_the_references_rule(self) -> None:
        """A3"""
        tree = tree_of(card("a", disallow_transfer_to_parent=True))
        assert (await resumed(tree, self.question("a", "a"), rule="adk")).outcome == "abstained"

    @pytest.mark.parametrize("kind", ["sequential", "parallel", "team"])
    async def test_a_composite_resumes_when_one_of_its_children_asked(self, kind: str) -> None:
        """A3: the composite holds the invocation, and goes on where it stopped (A41)."""
        tree = tree_of(card("all", kind=kind), card("a", "all"), card("b", "all"))
        for log in (self.question("all", "a"), [*self.question("all", "a"), says("b")]):
            for options in ({}, {"only": "awaiting"}):
                assert (await resumed(tree, log, **options)).agent == "all"

    async def test_somebody_else_spoke_since(self) -> None:
        log = [*self.question("a", "a"), asks("b", "i2"), says("b", invocation="i2")]
        assert (await resumed(ABC, log)).agent == "b"
        verdict = await resumed(ABC, log, only="awaiting")
        assert (verdict.outcome, verdict.reason) == ("abstained", "Nobody who spoke last waits for a reply.")

    async def test_a_failed_digression_changes_nothing(self) -> None:
        log = [*self.question("a", "a"), asks("b", "i2"), event("b", None, invocation="i2", error=FAILURE)]
        assert (await resumed(ABC, log, only="awaiting")).agent == "a"

    async def test_the_newest_question_counts(self) -> None:
        log = [*self.question("a", "a"), *self.question("b", "b", "i2")]
        assert (await resumed(ABC, log, only="awaiting")).agent == "b"

    async def test_a_question_of_an_agent_called_in_private_goes_to_who_holds_the_floor(self) -> None:
        private = event("c", "Which one?", invocation="i2", awaits=Await(id="w"), branch="1/>c#1")
        assert (await resumed(ABC, [says("b"), asks("a", "i2"), private])).agent == "a"

    async def test_an_invocation_that_runs_waits_for_nobody(self) -> None:
        head = head_of(self.question("a", "a"))
        running = {id_: open_.replace(state="running") for id_, open_ in head.invocations.items()}
        request = request_for(ABC, "x", head=head.replace(invocations=running))
        assert (await Resume(only="awaiting").select(request)).outcome == "abstained"

    async def test_a_wait_for_a_tool_is_no_question(self) -> None:
        """A42"""
        log = [asks("a"), event("a", "working", awaits=Await(id="c1", kind="tool_result"))]
        assert (await resumed(ABC, log, only="awaiting")).outcome == "abstained"

    async def test_an_answered_question_is_none(self) -> None:
        log = [*self.question("a", "a"), event("user", "12", answers="w-i1")]
        assert (await resumed(ABC, log, only="awaiting")).outcome == "abstained"

    async def test_who_may_not_be_reached_does_not_get_it(self) -> None:
        """C20: permission before everything."""
        tree = tree_of(card("a", enabled=False), card("b"))
        verdict = await resumed(tree, [says("b"), *self.question("a", "a")])
        assert (verdict.agent, passed(verdict)) == ("b", [("a", "disabled")])
        assert (await resumed(tree, self.question("a", "a"), only="awaiting")).outcome == "abstained"

    async def test_an_agent_that_is_gone(self) -> None:
        assert (await resumed(tree_of(card("b")), self.question("a", "a"), only="awaiting")).outcome == "abstained"
