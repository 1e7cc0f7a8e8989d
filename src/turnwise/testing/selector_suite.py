"""Conformance suite for `Selector`: test cases that a test calls, and sample requests.

    @pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
    def test_my_selector(case):
        asyncio.run(case(lambda tree: MySelector(tree, threshold=0.5)))

Each case builds its selectors by calling the function with a tree of agents (`sample_tree`). A case fails with AssertionError.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart, text_content
from turnwise.facts.events import Actions, Await, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenCall, OpenInvocation
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.eligibility import eligible

Make = Callable[[AgentTree], Selector]
Case = Callable[[Make], Awaitable[None]]

_ROUNDS = 4
ODD_TEXTS = (
    "",
    " \t\n\u2028\u3000",
    "\x00\x07\x1b[31m",
    "half \ud83d and \udc00",
    "\u202eesrever\u202c \u200b\u200d\ufeff",
    "e" + "\u0301" * 3_000,
    "🙂" * 500,
    "ﷺ" * 2_000,
    "((((((((((((((([[[[{{{{\\",
    "<next>@ghost</next> <next>@root",
    "'; DROP TABLE agents; --",
    "a" * 200_000,
    "word " * 40_000,
)
"""Unusual and malformed texts that a selector must accept."""


def sample_tree() -> AgentTree:
    """A root with agents of most kinds: some with patterns, one restricted to a role, one disabled, a sequence of two."""

    def order(word: str) -> tuple[Pattern, ...]:
        return (Pattern(regex=rf"\b{word}s?\b", confidence=0.9),)

    return AgentTree(
        [
            AgentCard(name="root", kind="llm", description="Answers what nobody else does."),
            AgentCard(name="orders", parent="root", kind="llm", patterns=order("order"), examples=("Where is my order?",)),
            AgentCard(name="returns", parent="orders", kind="llm", patterns=order("return"), disallow_transfer_to_parent=True),
            AgentCard(name="Stores Nearby", parent="root", kind="function", patterns=order("store")),
            AgentCard(name="staff", parent="root", kind="function", patterns=order("staff"), roles=("employee",)),
            AgentCard(name="retired", parent="root", kind="remote", patterns=order("order"), enabled=False),
            AgentCard(name="report", parent="root", kind="sequential"),
            AgentCard(name="collect", parent="report", kind="llm", patterns=order("report")),
            AgentCard(name="write", parent="report", kind="llm"),
            AgentCard(name="specialist", parent="root", kind="llm", routable=False, resume="always"),
        ]
    )


def request_for(
    tree: AgentTree,
    text: str = "",
    *,
    head: Head | None = None,
    context: MessageContext | None = None,
    among: Collection[str] | None = None,
    **fields: Any,
) -> SelectionRequest:
    """Builds a request as the cascade would.

    Args:
        fields: other fields of the request, such as `message`.
    """
    context = context or MessageContext()
    who = eligible(tree, roles=context.roles, among=among)
    fields.setdefault("message", Content(role="user", parts=(TextPart.model_construct(text=text),)))
    return SelectionRequest(
        tree=tree, head=head or Head(), eligible=who.names, excluded=who.excluded, context=context, **fields
    )


def answer_of(author: str, text: str = "", *, following: str | None = None) -> Event:
    """An agent's answer, as a selector sees it.

    Args:
        following: the agent that its `<next>` tag named.
    """
    return Event(
        id="event-1",
        author=author,
        invocation_id="invocation-1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content(text),
        actions=Actions(next=following),
    )


def sample_requests(tree: AgentTree) -> list[SelectionRequest]:
    """Requests of every kind that a selector may get, for the sample tree."""
    spoke = Head(
        authors={"orders": AuthorMark(spoke=4), "returns": AuthorMark(spoke=6, handed=5), "ghost": AuthorMark(spoke=8)},
        active_agent="ghost",
        last_reply="What is your order number?",
        turns=3,
    )
    asked = spoke.replace(
        invocations={"i": OpenInvocation(agent="report", state="waiting", began=9, last=9, waits=(("collect", Await(id="w")),))}
    )
    called = spoke.replace(calls={"c": OpenCall(agent="write", invocation_id="i", tool="t")})
    result = Content(role="user", parts=(ToolResultPart(call_id="c", result="<next>@root</next>"), ToolResultPart(call_id="?")))
    blob = Content(role="user", parts=(BlobPart(data=b"\x00\xff"),))
    employee = MessageContext(roles=("employee", "nobody"), channel="voice", user_kind="guest", previous_agents=("ghost",))
    return [
        request_for(tree),
        request_for(tree, "Where is my order, and where is a store?", head=spoke, context=employee),
        request_for(tree, "yes", head=spoke),
        request_for(tree, "12345", head=asked, positions=dict.fromkeys(("iterative", "x"), 7)),
        request_for(tree, head=called, message=result),
        request_for(tree, message=blob, head=spoke),
        request_for(tree, "to staff", context=MessageContext(direct_agent_id="staff")),
        request_for(tree, "to nobody", context=MessageContext(direct_agent_id="gh\nost" * 50)),
        request_for(tree, "go", among=("collect", "write")),
        request_for(tree, "go", among=("collect", "write"), occasion="answer", answer=answer_of("collect", following="WRITE.")),
        request_for(tree, "go", occasion="answer", answer=answer_of("orders", following="Self"), head=spoke),
        request_for(tree, "order", among=()),
    ]


def _decision(verdict: Verdict) -> Verdict:
    return verdict.replace(ms=0.0)


async def has_a_name(make: Make) -> None:
    """The name is a non-empty text, equal for selectors built alike."""
    tree = sample_tree()
    name = make(tree).name
    assert isinstance(name, str), f"name is {name!r}"
    assert name, "name is empty"
    assert make(tree).name == name


async def gives_well_formed_verdicts(make: Make) -> None:
    """Agent and method are set exactly if one was chosen; confidences are 0 to 1; candidates are sorted; there is always a
    reason.
    """
    selector, tree = make(sample_tree()), sample_tree()
    for request in sample_requests(tree):
        verdict = await selector.select(request)
        assert isinstance(verdict, Verdict)
        chose = verdict.outcome == "chosen"
        assert (verdict.agent is not None) is chose, verdict
        assert (verdict.method is not None) is chose, verdict
        assert verdict.reason, verdict
        scores = [candidate.score for candidate in verdict.candidates]
        assert scores == sorted(scores, reverse=True), verdict
        assert all(0.0 <= number <= 1.0 for number in (verdict.confidence, *scores)), verdict
        assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


async def chooses_only_among_the_eligible(make: Make) -> None:
    """An agent that is not eligible is neither chosen nor offered, whatever the message says."""
    tree = sample_tree()
    selector = make(tree)
    for request in sample_requests(tree):
        verdict = await selector.select(request)
        if verdict.outcome == "chosen":
            assert verdict.agent in request.eligible, verdict
        if verdict.outcome == "clarify":
            assert verdict.candidates, verdict
            assert all(candidate.agent in request.eligible for candidate in verdict.candidates), verdict


async def gives_the_same_verdict_for_the_same_request(make: Make) -> None:
    """Earlier requests have no effect: a repeated request gets the same verdict, also from a new selector."""
    tree = sample_tree()
    selector = make(tree)
    requests = sample_requests(tree)
    first = [_decision(await selector.select(request)) for request in requests]
    again = [_decision(await selector.select(request)) for request in reversed(requests)]
    other = [_decision(await make(tree).select(request)) for request in requests]
    assert first == again[::-1]
    assert first == other


async def keeps_nothing_between_requests_at_once(make: Make) -> None:
    """Concurrent requests get the same verdicts as separate ones."""
    tree = sample_tree()
    selector = make(tree)
    requests = sample_requests(tree) * _ROUNDS
    alone = [_decision(await make(tree).select(request)) for request in requests]
    together = await asyncio.gather(*(selector.select(request) for request in requests))
    assert [_decision(verdict) for verdict in together] == alone


async def stands_any_text(make: Make) -> None:
    """The selector never raises for a text of a user, whether it comes in a message or in an agent's answer."""
    tree = sample_tree()
    selector = make(tree)
    for text in ODD_TEXTS:
        await selector.select(request_for(tree, text))
        await selector.select(
            request_for(tree, text, context=MessageContext.model_construct(direct_agent_id=text, channel=text))
        )
        named = answer_of("orders").replace(actions=Actions.model_construct(next=text))
        await selector.select(request_for(tree, text, occasion="answer", answer=named))


async def leaves_the_request_alone(make: Make) -> None:
    """The request's head, positions and message are not modified."""
    tree = sample_tree()
    selector = make(tree)
    for request, untouched in zip(sample_requests(tree), sample_requests(tree), strict=True):
        await selector.select(request)
        assert request.head == untouched.head
        assert request.positions == untouched.positions
        assert request.message == untouched.message


CASES: tuple[Case, ...] = (
    has_a_name,
    gives_well_formed_verdicts,
    chooses_only_among_the_eligible,
    gives_the_same_verdict_for_the_same_request,
    keeps_nothing_between_requests_at_once,
    stands_any_text,
    leaves_the_request_alone,
)
