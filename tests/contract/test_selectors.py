"""The selectors' conformance suite, over all of ours, and over some that must not pass it."""

import asyncio
from collections.abc import Callable

import pytest

from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import Default, Direct, Identity, Iterative
from turnwise.selection.patterns import Patterns, pattern_index
from turnwise.selection.resume import Resume, ToolResult
from turnwise.testing import selector_suite

OURS: dict[str, Callable[[AgentTree], Selector]] = {
    "conversational": lambda _tree: Conversational(),
    "conversational-lead": lambda _tree: Conversational("orders"),
    "default": lambda _tree: Default("staff"),
    "direct": lambda _tree: Direct(),
    "identity": lambda _tree: Identity("retired"),
    "identity-root": lambda _tree: Identity(),
    "iterative": lambda _tree: Iterative(["orders", "retired", "write"]),
    "patterns": lambda tree: Patterns(pattern_index(tree)),
    "patterns-margin": lambda tree: Patterns(pattern_index(tree), threshold=0.5, margin=0.0),
    "resume": lambda _tree: Resume(),
    "resume-adk": lambda _tree: Resume(rule="adk"),
    "resume-awaited": lambda _tree: Resume(only="awaiting"),
    "tool-result": lambda _tree: ToolResult(),
}


@pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("selector", OURS)
async def test_ours(selector: str, case: selector_suite.Case) -> None:
    """E9, C20"""
    await case(OURS[selector])


class Faulty:
    """Chooses the first eligible, and breaks one rule."""

    name = "faulty"

    async def select(self, request: SelectionRequest) -> Verdict:
        if not request.eligible:
            return Verdict(selector=self.name, reason="nobody")
        return self.chosen(request.eligible[0])

    def chosen(self, agent: str | None, confidence: float = 0.5) -> Verdict:
        return Verdict(
            selector=self.name, outcome="chosen", agent=agent, method="faulty", confidence=confidence, reason="the first"
        )


class Nameless(Faulty):
    name = ""


class Overconfident(Faulty):
    def chosen(self, agent: str | None, confidence: float = 0.5) -> Verdict:
        return super().chosen(agent, confidence=1.5)


class Reckless(Faulty):
    async def select(self, request: SelectionRequest) -> Verdict:
        return self.chosen("retired")


class Counting(Faulty):
    """Keeps the place of all sessions on itself, as the reference does."""

    def __init__(self) -> None:
        self.count = 0

    async def select(self, request: SelectionRequest) -> Verdict:
        self.count += 1
        return self.chosen(request.eligible[self.count % len(request.eligible)] if request.eligible else "x")


class Mixing(Faulty):
    """Keeps the request on itself and then awaits: concurrent sessions mix."""

    async def select(self, request: SelectionRequest) -> Verdict:
        self.request = request
        await asyncio.sleep(0)
        return await super().select(self.request)


class Brittle(Faulty):
    async def select(self, request: SelectionRequest) -> Verdict:
        request.text.encode()
        return await super().select(request)


class Meddling(Faulty):
    async def select(self, request: SelectionRequest) -> Verdict:
        request.head.authors.clear()
        return await super().select(request)


@pytest.mark.parametrize(
    ("make", "case"),
    [
        (Nameless, selector_suite.has_a_name),
        (Overconfident, selector_suite.gives_well_formed_verdicts),
        (Reckless, selector_suite.chooses_only_among_the_eligible),
        (Counting, selector_suite.gives_the_same_verdict_for_the_same_request),
        (Mixing, selector_suite.keeps_nothing_between_requests_at_once),
        (Brittle, selector_suite.stands_any_text),
        (Meddling, selector_suite.leaves_the_request_alone),
    ],
)
async def test_each_case_can_fail(make: type[Faulty], case: selector_suite.Case) -> None:
    with pytest.raises((AssertionError, UnicodeEncodeError)):
        await case(lambda _tree: make())


async def test_a_faultless_one_passes() -> None:
    for case in selector_suite.CASES:
        await case(lambda _tree: Faulty())
