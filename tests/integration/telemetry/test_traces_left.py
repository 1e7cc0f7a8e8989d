"""Spans of messages that wait, are taken up again, or are lost, and whose trace they belong to."""

import asyncio
from collections.abc import Callable

import pytest
from runner_play import Crash, Fails, Gate, NoHeartbeat, ask, kill, leave_behind, reason, soon, until
from telemetry_play import Traced, about, numbers

from turnwise import (
    AgentContext,
    Runner,
    SqlSessionStore,
    TurnwiseError,
    agent,
)
from turnwise.facts.errors import StoreUnavailable
from turnwise.telemetry.metrics import Metrics

Make = Callable[..., Runner]


async def test_a_wait_ends_its_spans_and_the_reply_points_to_them(make_runner: Make) -> None:
    """A42: nothing stays open while a person thinks."""
    traced = Traced()

    @agent
    async def asker(context: AgentContext) -> str:
        answer = await context.ask("Which city?")
        return f"off to {answer.text}"

    runner = make_runner(asker, hooks=[traced.hooks])
    assert reason(await ask(runner, "hi")) == "waiting"
    (first,) = traced.roots
    assert about(first, "turnwise.end") == ("waiting",)
    assert [event.name for event in traced.span("invoke_agent asker").events] == ["turnwise.waits"]
    assert reason(await ask(runner, "Oslo")) == "completed"
    _, second = traced.roots
    assert about(second, "turnwise.end", "turnwise.invocation.id") == (
        "completed",
        *about(first, "turnwise.invocation.id"),
    )
    assert [link.context.span_id for link in second.links] == [first.context.span_id if first.context else 0]


async def test_a_wait_that_is_over_ends_in_a_span_of_its_own(make_runner: Make) -> None:
    """A42"""
    traced = Traced()

    @agent
    async def asker(context: AgentContext) -> str:
        await context.ask("Which city?")
        return "off"

    runner = make_runner(asker, hooks=[traced.hooks])
    first = await ask(runner, "hi")
    await runner.sessions.cancel(runner.key("ada", "s"), first.invocation_id)
    asked, cancelled = traced.roots
    assert about(cancelled, "turnwise.end") == ("cancelled",)
    assert [link.context for link in cancelled.links] == [asked.context]


async def test_a_message_that_is_taken_up_again(process: Make) -> None:
    """E7: what died never tells; what goes on says which attempt it is."""
    died, alive, crash = Traced(), Traced(), Crash()

    @agent
    async def steady(context: AgentContext) -> str:
        await context.step("paid", lambda: "once")
        await crash.here()
        return "done"

    await kill(lambda root, **options: process(root, hooks=[died.hooks], **options), steady, crash)
    assert died.roots == []
    died.hooks.close()
    assert about(died.roots[0], "turnwise.end") == ("unfinished",)
    runner = process(steady, hooks=[alive.hooks])
    assert await runner.recover() == 1
    assert about(alive.roots[0], "turnwise.end", "turnwise.attempt") == ("completed", 2)
    assert alive.tree() == ["turnwise.message", "  invoke_agent steady"], "what was carried over is not told again"


async def test_an_attempt_that_is_superseded_here_says_so(process: Make) -> None:
    traced, crash = Traced(), Crash()

    @agent
    async def steady() -> str:
        await crash.here()
        return "done"

    await kill(lambda root, **options: process(root, hooks=[traced.hooks], **options), steady, crash)
    await process(steady, hooks=[traced.hooks]).recover()
    first, second = traced.roots
    assert about(first, "turnwise.end") == ("superseded",)
    assert about(second, "turnwise.end") == ("completed",)
    assert [link.context for link in second.links] == [first.context]


async def test_what_is_lost_to_another_process_is_closed(process: Make) -> None:
    """A33"""
    gate, slow, metrics = Gate(), Traced(), Metrics()
    frozen = process(gate.agent, store=NoHeartbeat(process(gate.agent).store), hooks=[slow.hooks, metrics])
    invocation = await frozen.start("hi", user="ada", session="s")
    await gate.began.wait()
    await asyncio.sleep(0.02)

    @agent(name="gated")
    async def quick() -> str:
        return "quick"

    await process(quick).recover()
    gate.go.set()
    await invocation.result()
    await frozen.idle()
    assert about(slow.roots[0], "turnwise.end") == ("lost",)
    told = await numbers(metrics)
    assert told['turnwise_invocations_total{end="lost"}'] == 1
    assert told["turnwise_invocations_running"] == 0


async def test_a_store_that_fails_leaves_nothing_open(make_runner: Make) -> None:
    """A21: nobody here answers the message any more, and hooks are told so."""
    traced, metrics = Traced(), Metrics()
    store = Fails(SqlSessionStore("sqlite://"), "append", StoreUnavailable("away"))

    @agent
    async def one() -> str:
        return "one"

    invocation = await make_runner(one, store=store, hooks=[traced.hooks, metrics]).start("hi", user="ada", session="s")
    with pytest.raises(TurnwiseError):
        await invocation.result()
    assert about(traced.roots[0], "turnwise.end") == ("lost",)
    assert (await numbers(metrics))["turnwise_invocations_running"] == 0


async def test_a_trace_goes_on_that_of_whoever_sent_the_message(make_runner: Make) -> None:
    """Also when it waited behind another message of the session, and was begun in the task that answered that."""
    traced, gate = Traced(), Gate()
    runner = make_runner(gate.agent, hooks=[traced.hooks])
    tracer = traced.tracers.get_tracer("requests")

    async def request(text: str) -> int:
        with tracer.start_as_current_span(f"request {text}") as span:
            await (await runner.start(text, user="ada", session="s")).result()
            return span.get_span_context().span_id

    first = asyncio.create_task(request("one"))
    await gate.began.wait()
    second = asyncio.create_task(request("two"))
    await until(runner, lambda session: session.queued)
    gate.go.set()
    sent = [await soon(first), await soon(second)]
    assert [root.parent.span_id if root.parent else None for root in traced.roots] == sent


async def test_a_message_that_nobody_here_sent_begins_a_trace(make_runner: Make) -> None:
    """It was in the inbox, or with a process that died, whatever was being done here when it came to be answered."""
    traced = Traced()

    @agent
    async def one() -> str:
        return "one"

    runner = make_runner(one, hooks=[traced.hooks])
    await leave_behind(runner, "left")
    with traced.tracers.get_tracer("requests").start_as_current_span("request"):
        await ask(runner, "sent")
    left, sent = traced.roots
    assert left.parent is None
    assert sent.parent is not None
