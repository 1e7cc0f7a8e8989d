"""How an invocation ends: errors, limits, deadlines, cancelling, and readers who leave (A20–A23)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from runner_play import ask, key, log

from turnwise import AgentContext, Content, Event, Limits, RunConfig, Runner, agent
from turnwise.facts.content import ToolCallPart
from turnwise.facts.errors import (
    StoreFull,
    TurnwiseError,
)

MakeRunner = Callable[..., Runner]


async def test_an_error_event_is_recorded_and_the_run_goes_on(make_runner: MakeRunner) -> None:
    """A20."""
    from turnwise.facts.events import ErrorInfo

    @agent
    async def stumbles(context: AgentContext) -> AsyncIterator[str | Event]:
        yield context.event().replace(error=ErrorInfo(code="mine", message="a small problem"))
        yield "but done"

    result = await ask(make_runner(stumbles), "x")
    assert result.text == "but done"
    assert result.end is not None
    assert result.end.reason == "completed"
    assert [e.error.code for e in result.events if e.error] == ["mine"]


async def test_an_exception_ends_the_invocation_failed_and_the_session_goes_on(make_runner: MakeRunner) -> None:
    """A20 [+]: earlier events stay."""

    @agent
    async def fails(message: str, context: AgentContext) -> str:
        if message == "boom":
            await context.say("before")
            raise ValueError("no such thing")
        return "fine"

    runner = make_runner(fails)
    result = await ask(runner, "boom")
    assert result.text == "before"
    assert result.end is not None
    assert result.end.reason == "failed"
    assert result.error is not None
    assert result.error.code == "agent.failed"
    assert "ValueError: no such thing" in result.error.message
    assert (await ask(runner, "again")).text == "fine"


async def test_an_agent_that_takes_too_long_fails_with_a_time_out(make_runner: MakeRunner) -> None:
    @agent(time_limit=0.01)
    async def slow() -> str:
        await asyncio.sleep(60)
        return "late"

    result = await ask(make_runner(slow), "x")
    assert result.error is not None
    assert result.error.code == "agent.timeout"
    assert result.end is not None
    assert result.end.reason == "failed"


async def test_a_deadline_ends_the_invocation(make_runner: MakeRunner) -> None:
    @agent
    async def slow() -> str:
        await asyncio.sleep(60)
        return "late"

    result = await ask(make_runner(slow), "x", config=RunConfig(deadline_seconds=0.02))
    assert result.end is not None
    assert result.end.reason == "limit:invocation_seconds"


async def test_too_many_events_end_the_invocation(make_runner: MakeRunner) -> None:
    @agent
    async def chatty() -> AsyncIterator[str]:
        while True:
            yield "again"

    result = await ask(make_runner(chatty), "x", config=RunConfig(limits=Limits(events=5)))
    assert result.end is not None
    assert result.end.reason == "limit:events"
    assert result.text.count("again") == 5


class FullStore:
    """A store whose disk is full as soon as an agent answers."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def append(self, *_: object, **__: object) -> None:
        raise StoreFull("The disk is full.")


async def test_a_failed_append_ends_the_invocation_and_the_caller_sees_it(make_runner: MakeRunner) -> None:
    """A21: also when the agent swallows it."""
    from turnwise.stores.sql import SqlSessionStore

    @agent
    async def swallows(context: AgentContext) -> str:
        try:
            await context.say("one")
        except StoreFull:
            return "all is well"
        return "two"

    runner = make_runner(swallows, store=FullStore(SqlSessionStore("sqlite://")))
    invocation = await runner.start("x", user="ada", session="s")
    with pytest.raises(StoreFull):
        await invocation.result()
    assert await log(runner) == [("user", "x")]


async def test_the_run_goes_on_when_its_reader_leaves(make_runner: MakeRunner) -> None:
    """A22."""
    go = asyncio.Event()

    @agent
    async def slow(context: AgentContext) -> AsyncIterator[str]:
        yield "one"
        await go.wait()
        yield "two"

    runner = make_runner(slow)
    reader = runner.run("x", user="ada", session="s")
    async for event in reader:
        if event.text == "one":
            break
    await reader.aclose()  # type: ignore[attr-defined]
    go.set()
    await runner.idle()
    assert ("slow", "two") in await log(runner)


async def test_the_run_is_cancelled_when_its_reader_leaves_if_asked(make_runner: MakeRunner) -> None:
    """A22, A23."""

    @agent
    async def slow() -> AsyncIterator[str]:
        yield "one"
        await asyncio.sleep(60)

    runner = make_runner(slow)
    reader = runner.run("x", user="ada", session="s", config=RunConfig(when_reader_leaves="cancel"))
    async for event in reader:
        if event.text == "one":
            break
    await reader.aclose()  # type: ignore[attr-defined]
    events = await runner.store.events(key())
    assert events[-1].actions.end is not None
    assert events[-1].actions.end.reason == "cancelled"


async def test_cancel_closes_open_tool_calls(make_runner: MakeRunner) -> None:
    """A23: the history stays valid for every provider."""
    called = asyncio.Event()

    @agent
    async def calls(context: AgentContext) -> AsyncIterator[Event]:
        yield context.event(Content(parts=(ToolCallPart(call_id="c1", tool="pay"),)))
        called.set()
        await asyncio.sleep(60)

    runner = make_runner(calls)
    invocation = await runner.start("x", user="ada", session="s")
    await called.wait()
    await invocation.cancel()
    events = await runner.store.events(key())
    results = [r for e in events if e.content for r in e.content.tool_results]
    assert [(r.call_id, r.failed, r.result) for r in results] == [("c1", True, "cancelled")]
    session = await runner.sessions.get(key())
    assert session.head.calls == {}
    assert session.head.invocations == {}


async def test_an_agent_that_ignores_its_cancellation_cannot_write_any_more(make_runner: MakeRunner) -> None:
    """A23: the end stands."""

    @agent
    async def stubborn(context: AgentContext) -> None:
        await context.say("one")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
        await context.say("two")

    runner = make_runner(stubborn)
    invocation = await runner.start("x", user="ada", session="s")
    async for event in invocation.events():
        if event.text == "one":
            await invocation.cancel()
    events = await runner.store.events(key())
    assert events[-1].actions.end is not None
    assert [e for e in events if e.actions.end] == [events[-1]]


async def test_an_agent_that_will_not_stop_is_left_behind(make_runner: MakeRunner) -> None:
    """A23: the end is recorded after a while, and what the agent says later is refused."""
    refused: list[str] = []
    begun, done = asyncio.Event(), asyncio.Event()

    @agent
    async def stubborn(context: AgentContext) -> None:
        begun.set()
        for seconds in (60.0, *[0.02] * 10):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(seconds)
        try:
            await context.say("too late")
        except TurnwiseError as error:
            refused.append(error.code)
        done.set()

    runner = make_runner(stubborn)
    config = RunConfig(limits=Limits(grace_seconds=0.01))
    invocation = await runner.start("x", user="ada", session="s", config=config)
    await begun.wait()
    await invocation.cancel()
    end = (await invocation.result()).end
    assert end is not None
    assert end.reason == "cancelled"
    await done.wait()
    assert refused == ["session.stale_writer"]
    assert "too late" not in [e.text for e in await runner.store.events(key())]
