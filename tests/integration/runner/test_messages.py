"""One message in: what is stored, streamed and returned (A18–A25, A43)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from runner_play import ask, key

from turnwise import AgentContext, Content, Event, Limits, MessageContext, RunConfig, Runner, agent
from turnwise.facts.content import TextPart, text_content
from turnwise.facts.errors import (
    AgentDefinitionError,
    ConfigError,
    EmptyMessage,
    MessageError,
    MessageTooLarge,
    SessionMissing,
)
from turnwise.facts.events import Branch
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
        yield forged.replace(author=USER, invocation_id="other", branch=Branch("9"), sequence=1)

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
