from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import trace
from telemetry_play import Traced, about

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, Await, Branch, End, Event, Rewind
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.telemetry.logs import message_context
from turnwise.telemetry.traces import REMEMBERED, Spans, join_trace

KEY = SessionKey("app", "ada", "s")
CHOSEN = Selection(agent="a", method="m", confidence=1.0, reason="")


def event(author: str = "a", invocation: str = "i", *, attempt: int = 1, **actions: Any) -> Event:
    return Event(
        id="e",
        author=author,
        invocation_id=invocation,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content("hi"),
        actions=Actions(**actions),
        attempt=attempt,
        branch=Branch("" if author == USER else "1"),
    )


def asked(invocation: str = "i") -> Event:
    return event(USER, invocation, selection=CHOSEN)


async def test_without_anything_set_up_it_costs_nothing_and_says_nothing() -> None:
    """OpenTelemetry's own way to be off."""
    hooks = Spans()
    await hooks.stored(KEY, asked())
    await hooks.selected(KEY, CHOSEN)
    await hooks.ended(KEY, "i", "completed")
    hooks.close()


async def test_what_is_open_when_it_is_closed_says_so() -> None:
    told = Traced()
    await told.hooks.stored(KEY, asked("one"))
    await told.hooks.stored(KEY, asked("two"))
    await told.hooks.ended(KEY, "two", "completed")
    told.hooks.close()
    told.hooks.close()
    assert sorted(about(root, "turnwise.end")[0] for root in told.roots) == ["completed", "unfinished"]
    assert told.begun == len(told.spans)


async def test_ends_and_events_of_what_it_never_saw_begin_are_no_trouble() -> None:
    told = Traced()
    await told.hooks.stored(KEY, event())
    await told.hooks.ended(KEY, "i", "lost")
    assert told.spans == []


async def test_a_wait_that_ends_unanswered_is_a_span_of_its_own() -> None:
    """A42: such as one that expired, or whose agent is gone."""
    told = Traced()
    await told.hooks.stored(KEY, event(end=End(reason="limit:wait_seconds")))
    await told.hooks.ended(KEY, "i", "limit:wait_seconds")
    assert told.tree() == ["turnwise.message"]
    assert about(told.roots[0], "turnwise.end", "error.type") == ("limit:wait_seconds", "limit:wait_seconds")


async def test_a_message_that_is_blocked_is_a_span_without_turns() -> None:
    told = Traced()
    await told.hooks.stored(KEY, event(USER, end=End(reason="blocked")))
    await told.hooks.ended(KEY, "i", "blocked")
    assert told.tree() == ["turnwise.message"]
    assert about(told.roots[0], "turnwise.end") == ("blocked",)


async def test_equal_ids_in_other_sessions_are_others() -> None:
    told = Traced()
    for user in ("ada", "bob"):
        await told.hooks.stored(KEY._replace(user=user), asked())
    await told.hooks.ended(KEY, "i", "completed")
    assert len(told.roots) == 1


async def test_an_attempt_that_began_elsewhere_has_the_turn_of_who_goes_on() -> None:
    told = Traced()
    await told.hooks.stored(KEY, event("b", attempt=3, rewind=Rewind(from_sequence=2, invocation_id="i")))
    await told.hooks.ended(KEY, "i", "completed")
    assert told.tree() == ["turnwise.message", "  invoke_agent b"]
    assert about(told.roots[0], "turnwise.attempt") == (3,)


async def test_only_so_much_is_remembered_of_what_waits() -> None:
    """The reply to the oldest question begins a trace that points nowhere."""
    told = Traced()
    for number in range(REMEMBERED + 1):
        for again in (asked(str(number)), event("a", str(number), awaits=Await(id="w"))):
            await told.hooks.stored(KEY, again)
        await told.hooks.ended(KEY, str(number), "waiting")
    told.exporter.clear()
    for number in (0, 1, REMEMBERED):
        await told.hooks.stored(KEY, asked(str(number)))
        await told.hooks.ended(KEY, str(number), "completed")
    linked = {about(root, "turnwise.invocation.id")[0]: len(root.links) for root in told.roots}
    assert linked == {"0": 0, "1": 1, str(REMEMBERED): 1}


async def test_the_parent_is_what_the_sender_was_doing() -> None:
    told = Traced()
    tracer = told.tracers.get_tracer("t")
    with tracer.start_as_current_span("request") as request:
        for invocation, is_local in (("mine", True), ("not mine", False)):
            with message_context(KEY, is_local=is_local):
                await told.hooks.stored(KEY, asked(invocation))
                await told.hooks.ended(KEY, invocation, "completed")
    parents = {about(root, "turnwise.invocation.id")[0]: root.parent for root in told.roots}
    assert parents["not mine"] is None
    assert parents["mine"] is not None
    assert parents["mine"].span_id == request.get_span_context().span_id


async def test_a_request_brings_its_trace_along() -> None:
    told = Traced()
    with join_trace({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}):
        await told.hooks.stored(KEY, asked())
    assert not trace.get_current_span().get_span_context().is_valid
    await told.hooks.ended(KEY, "i", "completed")
    (root,) = told.roots
    assert root.parent is not None
    assert f"{root.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 10_000])
async def test_a_header_that_is_none_is_ignored(header: str) -> None:
    told = Traced()
    with join_trace({"traceparent": header}):
        await told.hooks.stored(KEY, asked())
    await told.hooks.ended(KEY, "i", "completed")
    assert told.roots[0].parent is None
