"""Which calls are waited for at the end of a log, and who is to answer them (A42)."""

from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, strategies as st
from logs import asks, call, event, log_of, numbered, question, result

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Await, End, Event, Rewind
from turnwise.facts.sessions import visible
from turnwise.transcript.waits import open_calls

SOON = datetime(2026, 1, 2, tzinfo=UTC)


def offered(call_id: str, tool: str = "show", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments, offered=True)


def waits(call_id: str, *, author: str = "a", **options: Any) -> Event:
    return event(author, awaits=Await(id=call_id, kind="tool_result", expires_at=SOON), **options)


def left(*events: Event) -> list[tuple[str, str]]:
    return [(each.call.call_id, each.kind) for each in open_calls(numbered(events))]


def test_each_tells_what_is_called_by_whom_and_who_is_to_answer() -> None:
    log = (
        asks("hello"),
        event("a", "I show it.", offered("k1", city="Bonn"), call("k2", "print"), call("k3", "pay", sum=3)),
        event("a", "May I?", question("k3-ok", "k3", tool="pay"), awaits=Await(id="k3-ok", kind="tool_result")),
        waits("k1"),
        waits("k2"),
    )
    first, second, third = open_calls(numbered(log))
    assert (first.call, first.kind, first.agent, first.invocation_id) == (offered("k1", city="Bonn"), "offered", "a", "i1")
    assert (first.text, first.expires_at) == ("I show it.", SOON)
    assert (second.call.tool, second.kind) == ("print", "late")
    assert (third.kind, third.text, third.call.arguments["tool"]) == ("confirm", "May I?", "pay")
    assert third.call.arguments["call"] == "k3"


def test_a_call_that_nobody_waits_for_yet_is_not_open() -> None:
    """It is being made, or a person is asked first."""
    assert left(asks("hello"), event("a", offered("k1"), call("k2"))) == []


def test_what_was_answered_is_not_open() -> None:
    """By the user, or by the agent itself; what waits again is."""
    log: tuple[Event, ...] = (asks("hello"), event("a", offered("k1"), offered("k2")), waits("k1"), waits("k2"))
    assert left(*log) == [("k1", "offered"), ("k2", "offered")]
    log = (*log, event(USER, result("k2")), waits("k1"))
    assert left(*log) == [("k1", "offered")]
    assert left(*log, event("a", result("k1"))) == []


def test_with_its_invocation_all_is_closed() -> None:
    log = (
        asks("one", invocation="i0"),
        event("a", offered("k1"), invocation="i0"),
        waits("k1", invocation="i0"),
        asks("two"),
        event("a", offered("k1")),
        waits("k1"),
    )
    assert len(open_calls(numbered(log))) == 2
    (open_,) = open_calls(numbered((*log, event("a", invocation="i0", end=End(reason="cancelled")))))
    assert open_.invocation_id == "i1"


def test_what_was_taken_back_or_only_shown_is_not_open() -> None:
    log = (asks("hello"), event("a", offered("k0"), partial=True), event("a", offered("k1")), waits("k1"))
    back = event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"), attempt=2)
    assert left(*log, back) == []
    assert left(*log, back, event("a", offered("k2"), attempt=2), waits("k2", attempt=2)) == [("k2", "offered")]


@given(st.integers(0, 100_000))
def test_of_any_log_only_what_is_waited_for_is_open(seed: int) -> None:
    """After its call comes the wait, and neither its result nor an end."""
    log = log_of(Random(seed))
    for open_ in open_calls(log):
        mine = [each for each in visible(e for e in log if not e.partial) if each.invocation_id == open_.invocation_id]
        made = max(place for place, each in enumerate(mine) if open_.call in _calls(each))
        behind = mine[made:]
        assert behind[0].author == open_.agent
        assert any(each.actions.awaits and each.actions.awaits.id == open_.call.call_id for each in mine)
        assert not any(each.actions.end for each in behind)
        assert open_.call.call_id not in {part.call_id for each in behind if each.content for part in each.content.tool_results}


def _calls(event: Event) -> tuple[ToolCallPart, ...]:
    return event.content.tool_calls if event.content else ()
