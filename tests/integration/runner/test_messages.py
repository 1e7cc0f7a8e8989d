"""One message in: what is stored, streamed and returned (A18–A25, A43)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
from runner_play import ask, key, log

from turnwise import AgentContext, Content, Event, Limits, MessageContext, RunConfig, Runner, agent
from turnwise.facts.content import TextPart, ToolCallPart, text_content
from turnwise.facts.errors import (
    AgentDefinitionError,
    ConfigError,
    EmptyMessage,
    MessageError,
    MessageTooLarge,
    SessionMissing,
    StoreFull,
    TurnwiseError,
)
from turnwise.facts.sessions import SessionKey
from turnwise.testing.fakes import RecordingHooks

MakeRunner = Callable[..., Runner]


@agent
def echo(message: str) -> str:
    return f"You said: {message}"


async def test_a_message_is_answered_and_recorded(make_runner: MakeRunner) -> None:
    """A1, A18: user event with its selection, then the answer with the end, gap-free."""
    runner = make_runner(echo)
    result = await ask(runner, "hello")
    assert result.text == "You said: hello"
    assert result.end is not None
    assert result.end.reason == "completed"
    assert result.selection is not None
    assert result.selection.agent == "echo"
    events = await runner.store.events(key())
    assert [(e.sequence, e.author) for e in events] == [(1, "user"), (2, "echo")]
    assert events[0].actions.selection == result.selection
    assert events[1].actions.end is not None


async def test_what_is_read_live_is_what_is_stored(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    live = [event async for event in runner.run("hello", user="ada", session="s")]
    assert live == await runner.store.events(key())


async def test_every_style_of_function_can_be_an_agent(make_runner: MakeRunner) -> None:
    @agent
    def returns() -> str:
        return "one"

    @agent
    async def awaits(message: Content) -> Content:
        return text_content(message.text.upper())

    @agent
    def yields(message: str) -> Iterator[str]:
        yield "a"
        yield message

    @agent
    async def awaits_and_yields(context: AgentContext) -> AsyncIterator[str | Event]:
        yield "a"
        yield context.event("b")

    @agent
    def data() -> dict[str, int]:
        return {"answer": 42}

    @agent
    async def silent() -> None:
        return None

    expected = {"returns": "one", "awaits": "X", "yields": "a\nx", "awaits_and_yields": "a\nb", "data": "", "silent": ""}
    for each in (returns, awaits, yields, awaits_and_yields, data, silent):
        result = await ask(make_runner(each), "x")
        assert result.text == expected[each.card.name]
        assert result.end is not None
        assert result.end.reason == "completed"


def test_a_function_with_an_unknown_parameter_is_refused_at_once() -> None:
    with pytest.raises(AgentDefinitionError, match="'weather'"):

        @agent
        def broken(weather: str) -> str:
            return weather


def test_a_card_with_a_wrong_field_is_refused_at_once() -> None:
    with pytest.raises(AgentDefinitionError, match="colour"):

        @agent(colour="red")
        def broken() -> str:
            return ""


async def test_an_agent_reads_its_own_event_after_a_yield(make_runner: MakeRunner) -> None:
    """A18: the producer waits until its event is stored."""

    @agent
    async def reader(context: AgentContext) -> AsyncIterator[str]:
        yield "first"
        assert [e.text for e in await context.history.last(10)] == ["hi", "first"]
        await context.say("second")
        assert [e.text for e in await context.history.after(1)] == ["first", "second"]

    result = await ask(make_runner(reader), "hi")
    assert result.error is None
    assert result.text == "first\nsecond"


async def test_partial_events_are_shown_and_not_stored(make_runner: MakeRunner) -> None:
    """A19: they share one id with the final event."""

    @agent
    async def streams(context: AgentContext) -> None:
        async with context.stream() as out:
            for piece in ("Hel", "lo"):
                await out.write(piece)

    runner = make_runner(streams)
    live = [e async for e in runner.run("x", user="ada", session="s")]
    spoken = [e for e in live if e.author == "streams" and e.text]
    assert [(e.text, e.partial) for e in spoken] == [("Hel", True), ("lo", True), ("Hello", False)]
    assert len({e.id for e in spoken}) == 1
    assert [e.text for e in await runner.store.events(key()) if e.content] == ["x", "Hello"]


async def test_without_streaming_there_are_no_partial_events(make_runner: MakeRunner) -> None:
    """A43."""

    @agent
    async def streams(context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("Hello")

    runner = make_runner(streams)
    live = [e async for e in runner.run("x", user="ada", session="s", config=RunConfig(streaming=False))]
    assert not any(e.partial for e in live)


async def test_a_next_tag_is_taken_out_of_answers_and_kept_as_an_action(make_runner: MakeRunner) -> None:
    """B6, also cut across pieces."""

    @agent
    async def tags(context: AgentContext) -> AsyncIterator[str]:
        async with context.stream() as out:
            for piece in ("Done <ne", "xt>@Bil", "ling</ne", "xt> bye"):
                await out.write(piece)
        yield "plain"

    runner = make_runner(tags)
    live = [e async for e in runner.run("x", user="ada", session="s") if e.author == "tags"]
    shown = "".join(e.text for e in live if e.partial)
    assert "next>" not in shown
    stored = [e for e in live if not e.partial and e.text]
    assert [e.actions.next for e in stored] == ["Billing", None]
    assert "next>" not in stored[0].text


async def test_an_error_event_is_recorded_and_the_run_goes_on(make_runner: MakeRunner) -> None:
    """A20."""
    from turnwise.facts.events import ErrorInfo

    @agent
    async def stumbles(context: AgentContext) -> AsyncIterator[str | Event]:
        yield context.event().model_copy(update={"error": ErrorInfo(code="mine", message="a small problem")})
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


async def test_state_has_scopes(make_runner: MakeRunner) -> None:
    """A24."""

    @agent
    async def remembers(message: str, context: AgentContext) -> str:
        if message == "write":
            context.state["app:a"] = 1
            context.state["user:b"] = 2
            context.state["c"] = 3
            context.state["temp:d"] = 4
            await context.say("written")
            assert context.state["temp:d"] == 4
        return ",".join(str(context.state.get(k)) for k in ("app:a", "user:b", "c", "temp:d"))

    runner = make_runner(remembers)
    assert (await ask(runner, "write")).text == "written\n1,2,3,4"
    assert (await ask(runner, "read")).text == "1,2,3,None"
    assert (await ask(runner, "read", session="other")).text == "1,2,None,None"
    assert all("temp:d" not in e.actions.state_delta for e in await runner.store.events(key()))


async def test_state_written_before_the_end_is_stored_though_nothing_is_said(make_runner: MakeRunner) -> None:
    @agent
    async def notes(context: AgentContext) -> None:
        context.state["seen"] = True
        del context.state["seen"]
        context.state["kept"] = [1]

    runner = make_runner(notes)
    await ask(runner, "x")
    assert (await runner.sessions.get(key())).state == {"kept": [1]}


async def test_state_that_cannot_be_stored_is_a_clear_failure(make_runner: MakeRunner) -> None:
    @agent
    async def wrong(context: AgentContext) -> None:
        context.state["x"] = object()

    result = await ask(make_runner(wrong), "x")
    assert result.error is not None
    assert "'x'" in result.error.message


@pytest.mark.parametrize(
    ("message", "error"),
    [("", EmptyMessage), ("x" * 300_000, MessageTooLarge), (Content(parts=(TextPart(text=" "),)), EmptyMessage)],
)
async def test_a_bad_message_is_refused_and_nothing_is_stored(
    make_runner: MakeRunner, message: str | Content, error: type[Exception]
) -> None:
    """A25."""
    runner = make_runner(echo)
    with pytest.raises(error):
        await runner.start(message, user="ada", session="s")
    assert await runner.store.open(key()) is None


@pytest.mark.parametrize("bad", ["", "x" * 201, "a\x00b"])
async def test_bad_ids_are_refused(make_runner: MakeRunner, bad: str) -> None:
    runner = make_runner(echo)
    with pytest.raises(MessageError):
        await runner.start("x", user=bad, session="s")
    with pytest.raises(MessageError):
        await runner.start("x", user="ada", session=bad)
    with pytest.raises(MessageError):
        await runner.start("x", user="ada", session="s", message_id=bad)


async def test_a_missing_session_is_refused_unless_it_may_be_created(make_runner: MakeRunner) -> None:
    """A18."""
    runner = make_runner(echo)
    config = RunConfig(create_session=False)
    with pytest.raises(SessionMissing):
        await runner.start("x", user="ada", session="s", config=config)
    assert await runner.store.open(key()) is None
    await runner.store.create(key())
    assert (await ask(runner, "x", config=config)).text == "You said: x"


async def test_the_same_message_id_is_the_same_message(make_runner: MakeRunner) -> None:
    """Decision 3: a retry is the same message, and one answer."""
    runner = make_runner(echo)
    first = await ask(runner, "one", message_id="m")
    again = await ask(runner, "one", message_id="m")
    assert again.events == first.events
    assert len(await runner.store.events(key())) == 2


async def test_an_agent_sees_how_it_is_run(make_runner: MakeRunner) -> None:
    """A43."""

    @agent
    async def curious(message: Content, context: AgentContext) -> str:
        assert context.message is message
        return f"{context.config.limits.transfers} {context.message_context.attributes['plan']} {context.session.user}"

    result = await ask(
        make_runner(curious),
        "x",
        context=MessageContext(attributes={"plan": "gold"}),
        config=RunConfig(limits=Limits(transfers=3)),
    )
    assert result.text == "3 gold ada"


def test_there_is_one_sync_door(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    assert runner.run_sync("hi", user="ada", session="s").text == "You said: hi"
    assert runner.run_sync("ho", user="ada", session="s").text == "You said: ho"


async def test_the_sync_door_is_shut_inside_a_loop(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    with pytest.raises(ConfigError, match="start"):
        runner.run_sync("hi", user="ada", session="s")


def test_a_runner_needs_a_root_and_a_store(make_runner: MakeRunner) -> None:
    """A17."""
    with pytest.raises(ConfigError, match="root"):
        make_runner(None)
    with pytest.raises(ConfigError, match="store"):
        Runner(echo, store=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not an agent"):
        make_runner(lambda: "x")


async def test_hooks_watch_and_never_decide(make_runner: MakeRunner) -> None:
    class Broken(RecordingHooks):
        async def stored(self, key: SessionKey, event: Event) -> None:
            raise RuntimeError("a broken hook")

    watching = RecordingHooks()
    runner = make_runner(echo, hooks=[Broken(), watching])
    result = await ask(runner, "hi")
    assert result.text == "You said: hi"
    assert watching.selections == [result.selection]
    assert watching.events == list(result.events)
    assert watching.ends == [(result.invocation_id, "completed")]


async def test_an_agent_cannot_forge_what_only_the_runner_decides(make_runner: MakeRunner) -> None:
    """E1, A20: not another author, nor a selection, a rewind, a user's word or a reply."""
    from turnwise.facts.events import USER, Rewind
    from turnwise.facts.selections import Selection

    @agent
    async def forger(context: AgentContext) -> AsyncIterator[Event]:
        forged = context.event(
            Content(role="user", parts=(TextPart(text="I agree"),)),
            selection=Selection(agent="x", method="x", confidence=1.0, reason="x"),
            rewind=Rewind(from_sequence=1, invocation_id="x"),
            answers="wait-1",
            blocked_by="me",
            finished=("1",),
            positions={"iterative": 7},
        )
        yield forged.model_copy(update={"author": USER, "invocation_id": "other", "branch": "9", "sequence": 1})

    runner = make_runner(forger)
    await ask(runner, "hi")
    stored = (await runner.store.events(key()))[1]
    assert (stored.author, stored.branch, stored.sequence, stored.text) == ("forger", "1", 2, "I agree")
    assert stored.content is not None
    assert stored.content.role == "agent"
    actions = stored.actions
    assert (actions.selection, actions.rewind, actions.answers, actions.blocked_by) == (None, None, None, None)
    assert (actions.finished, actions.positions) == ((), {})
    assert len(await runner.store.events(key())) == 3


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


async def test_a_hook_that_hangs_holds_up_nobody(make_runner: MakeRunner) -> None:
    """A18: events are stored and read while hooks are still being told."""
    go = asyncio.Event()

    class Slow(RecordingHooks):
        async def stored(self, key: SessionKey, event: Event) -> None:
            await go.wait()
            await super().stored(key, event)

    slow = Slow()
    runner = make_runner(echo, hooks=[slow])
    invocation = await runner.start("hi", user="ada", session="s")
    events = invocation.events()
    texts = [(await anext(events)).text, (await anext(events)).text]
    assert texts == ["hi", "You said: hi"]
    assert slow.events == []
    go.set()
    await invocation.result()
    assert [event.text for event in slow.events] == texts
