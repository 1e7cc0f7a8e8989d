"""Guardrails on messages, tool calls and answers, whatever the agent (C13, A10, A18)."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import Gate, InFront, ask, key, log, reason, until

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.facts.content import Seal, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import MessageBlocked, StoreUnavailable
from turnwise.facts.events import Await, Event, Guarded
from turnwise.ports.agent import Agent
from turnwise.ports.context import Show
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.fakes import FunctionGuardrail, RecordingHooks

MakeRunner = Callable[..., Runner]
SEAL = Seal(provider="p", data={"signature": "over the secret"})


def judge(place: str, text: str) -> GuardrailVerdict | None:
    if "forbidden" in text:
        return GuardrailVerdict("block", reason="This is not answered.")
    if "secret" in text:
        return GuardrailVerdict("rewrite", text_content(text.replace("secret", "***")), "A secret.")
    return None


WORDS = FunctionGuardrail("words", judge)


class Arguments:
    """Blocks calls of `drop`, takes the card out of the others' arguments."""

    name, reach = "arguments", 0

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if place != "tool_call":
            return ALLOW
        (call,) = content.parts
        assert isinstance(call, ToolCallPart)
        if call.tool == "drop":
            return GuardrailVerdict("block", reason="Nothing is dropped.")
        if "card" in call.arguments:
            arguments = {**call.arguments, "card": "[card]"}
            return GuardrailVerdict("rewrite", Content(parts=(call.replace(arguments=arguments),)), "A card.")
        return ALLOW


class Says:
    """A guardrail that says the same of everything at one place."""

    reach = 0

    def __init__(self, name: str, place: Place, verdict: Any) -> None:
        self.name, self._place, self._verdict = name, place, verdict

    async def check(self, place: Place, content: Content, agent: str | None) -> Any:
        return self._verdict if place == self._place else ALLOW


@agent
async def echo(message: str) -> str:
    return f"You said: {message}"


def saying(content: Content) -> Agent:
    @agent
    async def says(context: AgentContext) -> None:
        async def make(show: Show) -> Event:
            return context.event(content)

        await context.once("answer", make)

    return says


async def last(runner: Runner, author: str) -> Event:
    return [event for event in await runner.store.events(key()) if event.author == author and event.content][-1]


async def test_of_a_blocked_message_only_that_it_was_blocked_is_on_record(make_runner: MakeRunner) -> None:
    """C13, A18: and it is no turn of the conversation; the same message again is the same error."""
    hooks = RecordingHooks()
    runner = make_runner(echo, guardrails=[WORDS], hooks=[hooks])
    await ask(runner, "hello")
    before = (await runner.sessions.get(key())).head
    for _ in range(2):
        with pytest.raises(MessageBlocked, match="'words' blocked the message: This is not answered"):
            await runner.start("forbidden words", user="ada", session="s", message_id="m")
    await runner.idle()
    stored = (await runner.store.events(key()))[2:]
    assert [(e.author, e.content, e.actions.guarded) for e in stored] == [
        ("user", None, (Guarded(guardrail="words", action="block", reason="This is not answered."),))
    ]
    assert stored[0].actions.end is not None
    assert hooks.ends[-1] == (stored[0].invocation_id, "blocked")
    session = await runner.sessions.get(key())
    assert (session.head, session.held) == (before, False)
    assert "forbidden" not in str(await runner.store.inbox.receipt(key(), "m"))
    assert (await ask(runner, "again")).text == "You said: again"


async def test_a_blocked_message_comes_after_what_was_there_before_it(make_runner: MakeRunner) -> None:
    """A32, C13: it interrupts nothing, and its turn comes when the session is free."""
    gate = Gate()
    runner = make_runner(gate.agent, guardrails=[WORDS])
    first = await runner.start("work", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageBlocked):
        await runner.start("forbidden", user="ada", session="s", config=RunConfig(when_busy="interrupt"))
    third = await runner.start("more", user="ada", session="s")
    gate.go.set()
    assert ((await first.result()).text, (await third.result()).text) == ("answer to work", "answer to more")
    said = ["work", "answer to work", "", "more", "answer to more"]
    assert [text for _, text in await log(runner)] == said


async def test_a_message_is_blocked_while_another_process_answers(process: MakeRunner) -> None:
    """A32, C13: nothing of it is in the inbox that they share, and whoever works that off puts it on record."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent, guardrails=[WORDS])
    first = await one.start("work", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageBlocked):
        await two.start("forbidden", user="ada", session="s", message_id="m")
    receipt = await two.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert (receipt.state, receipt.message.content.parts) == ("queued", ())
    gate.go.set()
    assert (await first.result()).text == "answer to work"
    await until(two, lambda session: session.last_sequence == 3 and not session.held)
    assert [each.guardrail for each in (await two.store.events(key()))[-1].actions.guarded] == ["words"]
    with pytest.raises(MessageBlocked):
        await two.start("forbidden", user="ada", session="s", message_id="m")


async def test_a_lease_that_a_blocked_message_left_is_given_up(process: MakeRunner) -> None:
    """E7, C13: its process died right after it was on record; there is nothing to be done again."""
    one = process(echo)
    inner = one.store
    runner = process(echo, guardrails=[WORDS], store=InFront(inner, leases=InFront(inner.leases, release=unavailable)))
    with pytest.raises(StoreUnavailable):
        await runner.start("forbidden", user="ada", session="s")
    assert [event.content for event in await one.store.events(key())] == [None]
    assert (await one.sessions.get(key())).head.invocations == {}


async def unavailable(*_: object) -> None:
    raise StoreUnavailable("Out of reach.")


async def test_a_rewritten_message_is_stored_as_rewritten(make_runner: MakeRunner) -> None:
    """C13: with who did it and why."""
    runner = make_runner(echo, guardrails=[WORDS])
    result = await ask(runner, "my secret")
    assert (result.text, result.events[0].text) == ("You said: my ***", "my ***")
    assert result.events[0].actions.guarded == (Guarded(guardrail="words", action="rewrite", reason="A secret."),)


async def test_who_rewrote_a_message_is_known_also_when_it_had_to_queue(make_runner: MakeRunner) -> None:
    """C13, A18."""
    gate = Gate()
    runner = make_runner(gate.agent, guardrails=[WORDS])
    await runner.start("work", user="ada", session="s")
    await gate.began.wait()
    second = await runner.start("my secret", user="ada", session="s")
    gate.go.set()
    assert [each.guardrail for each in (await second.result()).events[0].actions.guarded] == ["words"]


async def test_guardrails_see_what_those_before_them_left(make_runner: MakeRunner) -> None:
    seen: list[str] = []
    second = FunctionGuardrail("second", lambda _, text: seen.append(text))
    await ask(make_runner(echo, guardrails=[WORDS, second]), "my secret")
    assert seen == ["my ***", "You said: my ***"]


async def test_of_a_rewritten_answer_nothing_unread_is_kept(make_runner: MakeRunner) -> None:
    """C13: thoughts and seals may hold what was taken out."""
    parts = (ThinkingPart(text="the secret", seal=SEAL), TextPart(text="a secret", seal=SEAL))
    runner = make_runner(saying(Content(parts=parts)), guardrails=[WORDS])
    await ask(runner, "x")
    event = await last(runner, "says")
    assert event.content == Content(parts=(TextPart(text="a ***"),))
    assert event.actions.guarded == (Guarded(guardrail="words", action="rewrite", reason="A secret."),)
    assert "secret" not in str(await runner.store.events(key())).replace("A secret.", "")


async def test_a_rewrite_of_what_is_said_leaves_the_calls(make_runner: MakeRunner) -> None:
    """C13: they are judged each by itself."""
    call = ToolCallPart(call_id="c", tool="look", arguments={"at": "it"}, seal=SEAL)
    runner = make_runner(saying(Content(parts=(TextPart(text="a secret"), call))), guardrails=[WORDS])
    await ask(runner, "x")
    content = (await last(runner, "says")).content
    # The end of the invocation gives the call a result.
    said = [event.content for event in await runner.store.events(key()) if event.author == "says" and event.text]
    assert content is not None
    assert said == [Content(parts=(TextPart(text="a ***"), call.replace(seal=None)))]


async def test_each_tool_call_is_judged_by_itself(make_runner: MakeRunner) -> None:
    """C13: what was taken out is not in the log, which call it was is."""
    calls = (
        ToolCallPart(call_id="1", tool="pay", arguments={"card": "4111", "sum": 3}, private=True, seal=SEAL),
        ToolCallPart(call_id="2", tool="drop", arguments={"table": "4111"}, raw='{"table', seal=SEAL),
        ToolCallPart(call_id="3", tool="look", seal=SEAL),
    )
    thought = ThinkingPart(text="They want to pay.", seal=SEAL)
    content = Content(parts=(thought, TextPart(text="Wait.", seal=SEAL), *calls))
    runner = make_runner(saying(content), guardrails=[Arguments()])
    await ask(runner, "x")
    stored = await runner.store.events(key())
    event = next(event for event in stored if event.text == "Wait.")
    # Providers take no call back without the thoughts that they signed before it.
    assert event.content == Content(
        parts=(
            thought,
            TextPart(text="Wait.", seal=SEAL),
            ToolCallPart(call_id="1", tool="pay", arguments={"card": "[card]", "sum": 3}, private=True),
            ToolCallPart(call_id="2", tool="drop"),
            ToolCallPart(call_id="3", tool="look", seal=SEAL),
        )
    )
    assert event.actions.guarded == (
        Guarded(guardrail="arguments", action="rewrite", reason="A card.", call_id="1"),
        Guarded(guardrail="arguments", action="block", reason="Nothing is dropped.", call_id="2"),
    )
    assert event.actions.blocked_by is None
    assert "4111" not in str(stored)


async def test_thoughts_that_hold_what_is_taken_out_of_a_call_go_with_what_is_said(make_runner: MakeRunner) -> None:
    """C13: they are judged as the answer is, and no part of them is kept."""

    def cards(place: str, text: str) -> GuardrailVerdict | None:
        return GuardrailVerdict("rewrite", Content(parts=(TextPart(text="Wait."),)), "A card.") if place == "answer" else None

    call = ToolCallPart(call_id="1", tool="pay", arguments={"card": "4111"}, seal=SEAL)
    content = Content(parts=(ThinkingPart(text="It is 4111", seal=SEAL), TextPart(text="4111", seal=SEAL), call))
    runner = make_runner(saying(content), guardrails=[Arguments(), FunctionGuardrail("cards", cards)])
    await ask(runner, "x")
    stored = await runner.store.events(key())
    said = next(event.content for event in stored if event.text == "Wait.")
    rewritten = ToolCallPart(call_id="1", tool="pay", arguments={"card": "[card]"})
    assert said == Content(parts=(TextPart(text="Wait."), rewritten))
    assert "4111" not in str(stored)


def caller(tool: str) -> Agent:
    @agent
    async def calls(context: AgentContext) -> str:
        return (await context.ask("Working", tool=tool, arguments={"card": "4111"})).tool_results[0].result  # type: ignore[return-value]

    return calls


async def test_the_call_that_an_agent_waits_for_is_judged_too(make_runner: MakeRunner) -> None:
    """C13, A42."""
    runner = make_runner(caller("pay"), guardrails=[Arguments()])
    waiting = await ask(runner, "x")
    assert (reason(waiting), waiting.events[-1].content is not None) == ("waiting", True)
    (call,) = waiting.events[-1].content.tool_calls  # type: ignore[union-attr]
    assert call.arguments == {"card": "[card]"}
    done = Content(parts=(ToolResultPart(call_id=call.call_id, result="done"),))
    assert (await ask(runner, done)).text == "done"


@pytest.mark.parametrize("yields", [False, True])
async def test_a_blocked_call_is_not_waited_for(make_runner: MakeRunner, yields: bool) -> None:
    """C13, A42, A23: the agent fails, or goes on if it does not look; either way the invocation has an end."""

    @agent
    async def careless(context: AgentContext) -> Any:
        call = ToolCallPart(call_id="1", tool="drop", arguments={"card": "4111"})
        yield context.event(Content(parts=(call,)), awaits=Await(id="1", kind="tool_result"))
        yield "on"

    runner = make_runner(careless if yields else caller("drop"), guardrails=[Arguments()])
    result = await ask(runner, "x")
    assert reason(result) == ("completed" if yields else "failed")
    head = (await runner.sessions.get(key())).head
    assert (head.invocations, head.calls) == ({}, {})
    assert "4111" not in str(await runner.store.events(key()))
    if not yields:
        assert result.error is not None
        assert result.error.message == "The call of 'drop' by 'calls' was blocked by 'arguments'."


async def test_blocked_results_are_failed_ones_and_stop_nobody(make_runner: MakeRunner) -> None:
    """C13: the call has a result, and its author may go on."""
    block = Says("closed", "answer", GuardrailVerdict("block", reason="Not for you."))
    result = ToolResultPart(call_id="1", tool="look", result={"key": "secret"})
    runner = make_runner(saying(Content(parts=(result,))), guardrails=[block])
    await ask(runner, "x")
    event = await last(runner, "says")
    assert event.content == Content(parts=(ToolResultPart(call_id="1", tool="look", result="Not for you.", failed=True),))
    assert (event.actions.blocked_by, [each.action for each in event.actions.guarded]) == (None, ["block"])


CALL = ToolCallPart(call_id="1", tool="pay", arguments={"a": "4111"})
NOT_FOLLOWED: list[tuple[Place, Any]] = [
    ("answer", None),
    ("answer", "block"),
    ("answer", GuardrailVerdict("rewrite")),
    ("answer", GuardrailVerdict("sing")),  # type: ignore[arg-type]
    ("answer", GuardrailVerdict("rewrite", text_content("\ud800"))),
    ("answer", GuardrailVerdict("rewrite", Content(parts=(TextPart(text="x"), CALL.replace(call_id="2"))))),
    ("answer", GuardrailVerdict("rewrite", Content(parts=(ToolResultPart(call_id="9", result="forged"),)))),
    ("answer", GuardrailVerdict("rewrite", Content())),
    ("tool_call", GuardrailVerdict("rewrite", text_content("x"))),
    ("tool_call", GuardrailVerdict("rewrite", Content(parts=(CALL, CALL)))),
    ("tool_call", GuardrailVerdict("rewrite", Content(parts=(CALL.replace(call_id="2"),)))),
    ("tool_call", GuardrailVerdict("rewrite", Content(parts=(CALL.replace(tool="drop"),)))),
]


@pytest.mark.parametrize(("place", "verdict"), NOT_FOLLOWED)
async def test_what_is_no_verdict_blocks(make_runner: MakeRunner, place: Place, verdict: Any) -> None:
    """C13: a guardrail that is broken has not allowed; it adds no calls, and changes none but in its arguments."""
    runner = make_runner(
        saying(Content(parts=(TextPart(text="4111"), CALL)) if place == "tool_call" else text_content("4111")),
        guardrails=[Says("odd", place, verdict)],
    )
    result = await ask(runner, "x")
    event = next(e for e in await runner.store.events(key()) if e.author == "says" and e.content and e.text)
    assert [(each.action, each.reason) for each in event.actions.guarded] == [
        ("block", "The guardrail 'odd' could not check this.")
    ]
    if place == "answer":
        assert (event.actions.blocked_by, "4111" in str(result.events)) == ("odd", False)
    else:
        assert [call.arguments for call in event.content.tool_calls] == [{}]  # type: ignore[union-attr]


class Hangs:
    name, reach = "hangs", 0

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if place == "answer":
            await asyncio.Event().wait()
        return ALLOW


async def test_a_check_has_its_time(make_runner: MakeRunner) -> None:
    """C13: what could not be checked in time is blocked."""
    config = RunConfig(limits=Limits(guardrail_seconds=0.01))
    result = await ask(make_runner(echo, guardrails=[Hangs()]), "x", config=config)
    assert result.text == "The guardrail 'hangs' could not check this."


async def test_what_a_failing_guardrail_says_is_told_to_nobody(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """C13: neither to the user, nor in the log of the process: it may be what it looked at."""

    def fails(place: Place, text: str) -> None:
        if place == "answer":
            raise SystemExit(f"cannot read {text}")

    runner = make_runner(echo, guardrails=[FunctionGuardrail("bad", fails)])
    assert (await ask(runner, "4111")).text == "The guardrail 'bad' could not check this."
    assert "raised SystemExit in" in caplog.text
    assert "4111" not in caplog.text


async def test_regenerating_what_is_blocked_now_hides_nothing(make_runner: MakeRunner) -> None:
    """A44."""
    closed: list[bool] = []
    guard = FunctionGuardrail("g", lambda *_: GuardrailVerdict("block", reason="no") if closed else None)
    runner = make_runner(echo, guardrails=[guard])
    result = await ask(runner, "x")
    closed.append(True)
    with pytest.raises(MessageBlocked):
        await runner.regenerate(key(), result.invocation_id)
    assert [text for _, text in await log(runner)] == ["x", "You said: x"]


class Blocking:
    """A check that is a plain function, and holds its thread until `end`."""

    name, reach = "blocking", 0

    def __init__(self) -> None:
        self.end = threading.Event()

    def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if place == "answer":
            self.end.wait()
        return ALLOW


def settle(runner: Runner) -> None:
    """Waits until no thread is stuck."""
    while runner.checks.stuck:
        time.sleep(0.001)


async def test_a_plain_check_that_hangs_holds_no_loop_and_is_counted(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """C13, J1: the message ends in time, the log names the guardrail and the stuck thread; it is counted until it ends."""
    guardrail, config = Blocking(), RunConfig(limits=Limits(guardrail_seconds=0.5))
    runner = make_runner(echo, guardrails=[guardrail])
    try:
        result = await ask(runner, "x", config=config)
        assert result.text == "The guardrail 'blocking' could not check this."
        assert "'blocking' took longer than 0.5 s (limits.guardrail_seconds); 1 of 8 threads" in caplog.text
        assert runner.checks.stuck == 1
    finally:
        guardrail.end.set()
    await asyncio.to_thread(settle, runner)
    assert (await ask(runner, "x")).text == "You said: x"
