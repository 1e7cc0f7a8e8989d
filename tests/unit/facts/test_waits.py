"""What an invocation waits for, by its log and by the head of its session (A42)."""

from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, strategies as st
from logs import NOW, asks, call, event, log_of, numbered, question, result

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Await, End, Event, Rewind
from turnwise.facts.sessions import Head, OpenCall, OpenInvocation, Session, fold, visible
from turnwise.facts.waits import APPROVAL_TOOL, Wait, calls_in, is_approval, is_late, open_waits, wait_opened_by, waits_of

SOON = datetime(2026, 1, 2, tzinfo=UTC)


def offered(call_id: str, tool: str = "show", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments, offered=True)


def waits(call_id: str, *, author: str = "a", **options: Any) -> Event:
    return event(author, awaits=Await(id=call_id, kind="tool_result", expires_at=SOON), **options)


def left(*events: Event) -> list[tuple[str, str]]:
    return [(each.id, each.kind) for each in open_waits(numbered(events))]


def test_each_says_what_is_awaited_by_whom() -> None:
    log = (
        asks("hello"),
        event("a", "I show it.", offered("k1", city="Bonn"), call("k2", "print"), call("k3", "pay", sum=3)),
        event("a", "May I?", question("k3-ok", "k3", tool="pay"), awaits=Await(id="k3-ok", kind="tool_result")),
        waits("k1"),
        waits("k2"),
        event("b", "Which?", awaits=Await(id="w")),
    )
    approval, first, second, reply = open_waits(numbered(log))
    assert (first.call, first.kind, first.agent, first.invocation_id) == (offered("k1", city="Bonn"), "tool_result", "a", "i1")
    assert (first.expires_at, first.tool) == (SOON, "show")
    assert second.call is not None
    assert (second.tool, second.kind, is_late(second.call)) == ("print", "tool_result", True)
    assert not is_late(offered("k1"))
    assert approval.call is not None
    assert (approval.kind, approval.text, approval.call.arguments["tool"]) == ("confirmation", "May I?", "pay")
    assert not is_late(approval.call)
    assert (reply.kind, reply.agent, reply.text, reply.tool, reply.call) == ("reply", "b", "Which?", "", None)


def test_a_tool_of_ones_own_may_have_the_name_of_the_question() -> None:
    """Only a private call that names the call to approve asks for approval."""
    assert is_approval(question("k-ok", "k"))
    for other in (
        question("k-ok", "k").replace(private=False),
        call("k", APPROVAL_TOOL, private=True),
        offered("k"),
    ):
        assert not is_approval(other)


def test_an_event_may_open_a_wait() -> None:
    asked = wait_opened_by(event("a", "May I?", question("k-ok", "k"), awaits=Await(id="k-ok", kind="tool_result")))
    assert asked is not None
    assert (asked.id, asked.kind) == ("k-ok", "confirmation")
    assert wait_opened_by(event("a", "hello")) is None


def test_a_call_that_nobody_waits_for_yet_is_not_open() -> None:
    """It is being made, or a person is asked first."""
    assert left(asks("hello"), event("a", offered("k1"), call("k2"))) == []


def test_what_was_answered_is_not_open() -> None:
    """By the user, or by the agent itself; what waits again is."""
    log: tuple[Event, ...] = (asks("hello"), event("a", offered("k1"), offered("k2")), waits("k1"), waits("k2"))
    assert left(*log) == [("k1", "tool_result"), ("k2", "tool_result")]
    log = (*log, event(USER, result("k2")), waits("k1"))
    assert left(*log) == [("k1", "tool_result")]
    assert left(*log, event("a", result("k1"))) == []
    asked = event("a", "Which?", awaits=Await(id="w"))
    assert left(asked, event(USER, "this", answers="w")) == []
    assert left(asked, event(USER, "this")) == [("w", "reply")]


def test_with_its_invocation_all_is_closed() -> None:
    log = (
        asks("one", invocation="i0"),
        event("a", offered("k1"), invocation="i0"),
        waits("k1", invocation="i0"),
        asks("two"),
        event("a", offered("k1")),
        waits("k1"),
    )
    assert len(open_waits(numbered(log))) == 2
    (open_,) = open_waits(numbered((*log, event("a", invocation="i0", end=End(reason="cancelled")))))
    assert open_.invocation_id == "i1"


def test_what_was_taken_back_or_only_shown_is_not_open() -> None:
    log = (asks("hello"), event("a", offered("k0"), partial=True), event("a", offered("k1")), waits("k1"))
    back = event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"), attempt=2)
    assert left(*log, back) == []
    assert left(*log, back, event("a", offered("k2"), attempt=2), waits("k2", attempt=2)) == [("k2", "tool_result")]


def test_the_waits_of_a_head_by_kind_the_newest_invocation_first() -> None:
    waits_ = (("desk", Await(id="w")), ("desk", Await(id="c", kind="tool_result")), ("desk", Await(id="q", kind="tool_result")))
    head = Head(
        invocations={
            "old": OpenInvocation(state="waiting", agent="desk", began=1, waits=waits_),
            "new": OpenInvocation(state="waiting", agent="shop", began=9, waits=(("shop", Await(id="v")),)),
        },
        calls={
            "c": OpenCall(agent="desk", invocation_id="old", tool="ship"),
            "q": OpenCall(agent="desk", invocation_id="old", tool=APPROVAL_TOOL),
        },
    )
    assert list(waits_of(head)) == [
        Wait("new", "v", "reply", "shop"),
        Wait("old", "w", "reply", "desk"),
        Wait("old", "c", "tool_result", "desk", "ship"),
        Wait("old", "q", "confirmation", "desk", APPROVAL_TOOL),
    ]


@given(st.integers(0, 100_000))
def test_of_any_log_only_what_is_waited_for_is_open(seed: int) -> None:
    """After its call comes the wait, and neither its result nor an end."""
    log = log_of(Random(seed))
    for open_ in open_waits(log):
        mine = [each for each in visible(e for e in log if not e.partial) if each.invocation_id == open_.invocation_id]
        opened = max(place for place, each in enumerate(mine) if each.actions.awaits and each.actions.awaits.id == open_.id)
        after = mine[opened + 1 :]
        assert mine[opened] == open_.event
        assert open_.call is None or open_.call in calls_in(mine)
        assert not any(each.actions.end for each in mine[opened:])
        assert open_.id not in {part.call_id for each in after if each.content for part in each.content.tool_results}
        assert open_.id not in {each.actions.answers for each in after}


@given(st.integers(0, 100_000))
def test_the_log_and_the_head_agree(seed: int) -> None:
    """Of invocations that begin with a message and do nothing after their end."""
    log, running, ended = list[Event](), set[str](), set[str]()
    for each in visible(each for each in log_of(Random(seed)) if not each.partial):
        running |= {each.invocation_id} if each.author == USER and each.actions.selection else set()
        if each.invocation_id in running - ended and each.actions.rewind is None:
            log.append(each)
        ended |= {each.invocation_id} if each.actions.end else set()
    log = numbered(log)
    session = Session(app="app", user="ann", id="s", created_at=NOW, updated_at=NOW)
    head = fold(session, log).head
    by_log = open_waits(log)
    assert {each.id for each in waits_of(head)} == {each.id for each in by_log}
    for wait in waits_of(head):
        assert (wait.agent, wait.expires_at) in [(each.agent, each.expires_at) for each in by_log if each.id == wait.id]
