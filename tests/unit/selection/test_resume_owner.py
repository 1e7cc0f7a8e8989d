"""The owner of a tool result (A6, A7, A8)."""

import pytest

from turnwise.facts.content import Content, TextPart, ToolResultPart
from turnwise.facts.errors import UnknownToolCall
from turnwise.facts.events import Await
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Head, OpenCall, OpenInvocation
from turnwise.selection.resume import ToolResult, reply_owner, tool_result_owner
from turnwise.testing.selector_suite import request_for, sample_tree

HEAD = Head(
    calls={
        "c1": OpenCall(agent="orders", invocation_id="i1", tool="t"),
        "c2": OpenCall(agent="returns", invocation_id="i1", tool="t"),
        "c3": OpenCall(agent="orders", invocation_id="i2", tool="t"),
        "c4": OpenCall(agent="ghost", invocation_id="i3", tool="t"),
        "c5": OpenCall(agent="retired", invocation_id="i4", tool="t"),
    }
)


def results(*ids: str) -> Content:
    return Content(role="user", parts=(TextPart(text="and hello"), *(ToolResultPart(call_id=id_) for id_ in ids)))


def test_the_author_of_the_call_and_its_invocation() -> None:
    """A6"""
    assert tool_result_owner(results("c2"), HEAD) == ("i1", "returns")
    assert tool_result_owner(results("c2", "c1"), HEAD) == ("i1", "returns")


def test_a_message_without_a_result_has_no_owner() -> None:
    assert tool_result_owner(results(), HEAD) is None


@pytest.mark.parametrize("ids", [("c9",), ("c1", "c9"), ("",)])
def test_an_unknown_call_is_an_error(ids: tuple[str, ...]) -> None:
    """A8"""
    with pytest.raises(UnknownToolCall, match="Nobody waits"):
        tool_result_owner(results(*ids), HEAD)


def test_results_for_different_invocations_are_an_error() -> None:
    """A8"""
    with pytest.raises(UnknownToolCall, match="different invocations"):
        tool_result_owner(results("c1", "c3"), HEAD)


def test_a_long_id_is_not_repeated_whole() -> None:
    with pytest.raises(UnknownToolCall) as caught:
        tool_result_owner(results("x" * 10_000), HEAD)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("ids", "agent", "reason"),
    [
        (("c1",), "orders", "The message holds the result of a tool call that orders made."),
        (("c4",), None, "ghost made the tool call, but is no longer in the tree."),
        (("c5",), None, "retired made the tool call, but may not be reached."),
        (("c9",), None, "Nobody waits for a result of the tool call 'c9'."),
        ((), None, "The message holds no tool result."),
    ],
)
async def test_the_selector_chooses_the_owner_or_abstains(ids: tuple[str, ...], agent: str | None, reason: str) -> None:
    """A6, A7; it never raises, the runner has refused what is wrong before (A8)."""
    verdict = await ToolResult().select(request_for(sample_tree(), head=HEAD, message=results(*ids)))
    assert (verdict.agent, verdict.reason) == (agent, reason)
    if agent:
        assert (verdict.method, verdict.confidence) == ("tool_result", 1.0)


ASKED = Head(
    invocations={
        "i1": OpenInvocation(state="waiting", agent="orders", began=1, waits=(("orders", Await(id="w1")),)),
        "i2": OpenInvocation(
            state="waiting", agent="orders", began=5, waits=(("returns", Await(id="w2")), ("ghost", Await(id="w3")))
        ),
        "i3": OpenInvocation(state="waiting", agent="orders", began=9, waits=(("orders", Await(id="c1", kind="tool_result")),)),
    }
)


def test_who_asked_owns_the_reply() -> None:
    """A42"""
    assert reply_owner("w1", ASKED) == ("i1", "orders")
    assert reply_owner("w2", ASKED) == ("i2", "returns")


@pytest.mark.parametrize("answers", ["", "w9", "c1"])
def test_a_reply_to_no_open_question_is_an_error(answers: str) -> None:
    with pytest.raises(UnknownToolCall, match="Nobody waits for a reply"):
        reply_owner(answers, ASKED)


@pytest.mark.parametrize(
    ("answers", "agent", "reason"),
    [
        ("w2", "returns", "The message is the reply to a question that returns asked."),
        ("w3", None, "ghost asked, but is no longer in the tree."),
        ("w9", None, "Nobody waits for a reply to 'w9'."),
    ],
)
async def test_the_selector_goes_by_the_question(answers: str, agent: str | None, reason: str) -> None:
    """A42"""
    request = request_for(sample_tree(), head=ASKED, context=MessageContext(answers=answers))
    verdict = await ToolResult().select(request)
    assert (verdict.agent, verdict.method, verdict.reason) == (agent, "reply" if agent else None, reason)
