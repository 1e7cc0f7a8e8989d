"""A busy session under adversity: queues, leavers, late readers, refusals (A18, A19, A22, A25, A32, A44)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, key, log, reason

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import BlobPart, TextPart, ToolResultPart, text_content
from turnwise.facts.errors import MessageBlocked, MessageError, MessageTooLarge, SessionBusy
from turnwise.facts.messages import Message, MessageContext
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.fakes import FunctionGuardrail

MakeRunner = Callable[..., Runner]


class Gate:
    """An agent that holds the message `slow` until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()

        @agent
        async def gated(message: str) -> str:
            if message == "slow":
                self.began.set()
                await self.go.wait()
            return f"answer to {message}"

        self.agent: FunctionAgent = gated


async def state_of(runner: Runner, message_id: str) -> str:
    receipt = await runner.store.inbox.receipt(key(), message_id)
    return receipt.state if receipt else "unknown"


async def leave_behind(runner: Runner, text: str | Content, id_: str = "left") -> None:
    """Puts a message into the inbox, as a process that died right after leaves it."""
    message = Message(id=id_, content=text_content(text, "user") if isinstance(text, str) else text)
    await runner.store.inbox.accept(key(), message, create=True, limit=10)


class Buggy:
    name = "buggy"

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if content.text == "poison":
            raise ValueError("a bug in a guardrail")
        return ALLOW


async def test_a_poisonous_message_does_not_wedge_the_session(make_runner: MakeRunner) -> None:
    """A32, A18: its caller gets the error, nothing of it is kept, and those behind it are answered."""
    gate = Gate()
    runner = make_runner(gate.agent, guardrails=[Buggy()])
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(ValueError, match="a bug"):
        await runner.start("poison", user="ada", session="s", message_id="bad")
    third = await runner.start("three", user="ada", session="s")
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    assert (await third.result()).text == "answer to three"
    assert await runner.store.inbox.receipt(key(), "bad") is None
    assert (await ask(runner, "four")).text == "answer to four"


async def test_a_message_that_is_blocked_is_not_kept_though_the_session_is_busy(make_runner: MakeRunner) -> None:
    """A18: guardrails see it before the inbox does."""
    gate = Gate()
    guard = FunctionGuardrail("cards", lambda _, text: GuardrailVerdict("block", reason="no") if "4111" in text else None)
    runner = make_runner(gate.agent, guardrails=[guard])
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageBlocked):
        await runner.start("my card is 4111", user="ada", session="s", message_id="card")
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    assert await runner.store.inbox.receipt(key(), "card") is None


async def test_a_poisonous_message_left_by_another_process_is_put_aside(make_runner: MakeRunner) -> None:
    """A32: whoever comes next is not stopped by it."""
    runner = make_runner(Gate().agent)
    poison = Content(role="user", parts=(ToolResultPart(call_id="nobody's", result=1),))
    await leave_behind(runner, poison)
    assert (await ask(runner, "next")).text == "answer to next"
    assert await state_of(runner, "left") == "refused"


async def test_what_was_put_in_the_inbox_is_not_shown_to_guardrails_again(make_runner: MakeRunner) -> None:
    """A18: once, by whoever accepted it."""
    runner = make_runner(Gate().agent, guardrails=[Buggy()])
    await leave_behind(runner, "poison")
    assert (await ask(runner, "next")).text == "answer to next"
    assert [text for author, text in await log(runner) if author == "user"] == ["poison", "next"]


@pytest.mark.parametrize("policy", ["queue", "reject", "interrupt"])
async def test_messages_left_behind_are_answered_first_and_block_nobody(make_runner: MakeRunner, policy: Any) -> None:
    """A32, A43: under every policy; they run under the runner's own configuration."""
    seen: list[tuple[str, int]] = []

    @agent
    async def sees(message: str, context: AgentContext) -> str:
        seen.append((message, context.config.limits.transfers))
        return message

    runner = make_runner(sees, config=RunConfig(when_busy=policy, limits=Limits(transfers=1)))
    await leave_behind(runner, "left")
    if policy == "reject":
        with pytest.raises(SessionBusy):
            await ask(runner, "zero")
        await runner.idle()
    for text in ("one", "two"):
        assert (await ask(runner, text)).text == text
    assert seen == [("left", 1), ("one", 1), ("two", 1)]


async def test_a_message_is_run_as_it_came_whoever_finds_it(make_runner: MakeRunner) -> None:
    """A43: its configuration is kept with it."""
    seen: list[int] = []

    @agent
    async def sees(context: AgentContext) -> str:
        seen.append(context.config.limits.transfers)
        return "seen"

    gate = Gate()
    busy, other = make_runner(gate.agent), make_runner(sees)
    first = await busy.start("slow", user="ada", session="s")
    await gate.began.wait()
    await busy.start("two", user="ada", session="s", message_id="two", config=RunConfig(limits=Limits(transfers=3)))
    receipt = await busy.store.inbox.receipt(key(), "two")
    assert receipt is not None
    await other.store.inbox.accept(key(), receipt.message, create=True, limit=1)
    assert await other.recover() == 1
    assert seen == [3]
    gate.go.set()
    await first.result()


class SlowInbox:
    """A store whose inbox takes a while to say that it accepted."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def inbox(self) -> Any:
        return SlowAccepting(self._inner.inbox)


class SlowAccepting(SlowInbox):
    async def accept(self, *arguments: Any, **options: Any) -> Any:
        receipt = await self._inner.accept(*arguments, **options)
        await asyncio.sleep(0.03)
        return receipt


async def test_a_caller_who_gives_up_while_being_accepted_loses_nothing(make_runner: MakeRunner) -> None:
    """A32: what is stored is also in line; the retry is the same message."""
    gate = Gate()
    runner = make_runner(gate.agent, store=SlowInbox(SqlSessionStore("sqlite://")))
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await runner.start("two", user="ada", session="s", message_id="two")
    gate.go.set()
    await first.result()
    assert (await ask(runner, "two", message_id="two")).text == "answer to two"
    await runner.idle()
    assert [e.text for e in await runner.store.events(key()) if e.author == "user"] == ["slow", "two"]


async def test_a_cancelled_queued_message_leaves_at_once(make_runner: MakeRunner) -> None:
    """A23, A32: while the one before it still runs; out of the line, and out of the inbox."""
    gate = Gate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    second = await runner.start("two", user="ada", session="s", message_id="two")
    third = await runner.start("three", user="ada", session="s")
    await second.cancel()
    assert reason(await second.result()) == "cancelled"
    assert not first.feed.is_closed
    assert await state_of(runner, "two") == "refused"
    gate.go.set()
    assert (await third.result()).text == "answer to three"
    assert "two" not in str(await log(runner))


async def test_a_message_behind_one_left_in_the_inbox_can_be_cancelled_and_so_can_that_one(make_runner: MakeRunner) -> None:
    """A23, A32: the one left behind runs in this process too, and is told so."""
    gate = Gate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    last = await runner.start("three", user="ada", session="s")
    await gate.began.wait()
    await behind.cancel()
    assert reason(await behind.result()) == "cancelled"
    (running,) = (await runner.sessions.get(key())).head.invocations
    await runner.sessions.cancel(key(), running)
    assert (await last.result()).text == "answer to three"
    ends = [e.actions.end.reason for e in await runner.store.events(key()) if e.actions.end]
    assert ends == ["cancelled", "completed"]


async def test_a_newer_message_interrupts_one_left_in_the_inbox(make_runner: MakeRunner) -> None:
    """A32: what runs is interrupted, not what waits behind it."""
    gate = Gate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    newer = await runner.start("three", user="ada", session="s", config=RunConfig(when_busy="interrupt"))
    assert (await newer.result()).text == "answer to three"
    assert (await behind.result()).text == "answer to two"


async def test_many_come_and_go_and_nothing_stays_behind(make_runner: MakeRunner) -> None:
    """A32: cancelled while queued, while beginning, while running; every message has one end, none is interleaved."""

    @agent
    async def echo(message: str) -> str:
        await asyncio.sleep(0)
        return message

    runner = make_runner(echo)

    async def one(n: int) -> str:
        for _ in range(n % 7):
            await asyncio.sleep(0)
        invocation = await runner.start(str(n), user="ada", session="s")
        if n % 3 == 0:
            await asyncio.sleep(0.001 * (n % 5))
            await invocation.cancel()
        return reason(await invocation.result())

    async with asyncio.timeout(30):
        ends = await asyncio.gather(*(one(n) for n in range(60)))
    assert {end for n, end in enumerate(ends) if n % 3} == {"completed"}
    assert set(ends) <= {"completed", "cancelled"}
    assert await runner.store.inbox.queued(key()) is None
    assert (await runner.sessions.get(key())).head.invocations == {}
    open_: str | None = None
    for event in await runner.store.events(key()):
        assert (event.author == "user") == (open_ is None)
        assert open_ in (None, event.invocation_id)
        open_ = None if event.actions.end else event.invocation_id
    assert open_ is None


async def test_a_reader_who_comes_late_gets_what_is_after(make_runner: MakeRunner) -> None:
    """A19, A22: stored events above the number given; no piece of what is there whole; and then it follows."""
    shown, go = asyncio.Event(), asyncio.Event()

    @agent
    async def streams(context: AgentContext) -> str:
        await context.say("one")
        async with context.stream() as out:
            await out.write("two ")
            await out.write("whole")
        async with context.stream() as out:
            await out.write("three ")
            shown.set()
            await go.wait()
            await out.write("whole")
        return "four"

    runner = make_runner(streams)
    invocation = await runner.start("x", user="ada", session="s")
    await shown.wait()

    async def read(after: int) -> list[tuple[bool, str]]:
        return [(e.partial, e.text) async for e in invocation.events(after=after)]

    readers = [asyncio.create_task(read(after)) for after in (0, 2, 3)]
    await asyncio.sleep(0)
    go.set()
    tail = [(True, "three "), (True, "whole"), (False, "three whole"), (False, "four")]
    stored = [(False, "x"), (False, "one"), (False, "two whole")]
    assert await asyncio.gather(*readers) == [stored + tail, stored[2:] + tail, tail]
    assert await read(3) == [(False, "three whole"), (False, "four")]
    assert await read(99) == []


async def test_close_waits_for_what_runs_and_what_is_queued(make_runner: MakeRunner) -> None:
    """A22: an accepted message is answered before the stores are closed."""
    gate = Gate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    second = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    gate.go.set()
    await closing
    assert [(await i.result()).text for i in (first, second)] == ["answer to slow", "answer to two"]
    await runner.close()


def judge(_: str, text: str) -> GuardrailVerdict:
    return GuardrailVerdict("rewrite", text_content(text.replace("4111", "****")))


@pytest.mark.parametrize("queued", [False, True])
async def test_what_is_kept_of_a_message_is_what_the_guardrails_left(make_runner: MakeRunner, queued: bool) -> None:
    """A18: in the log, and in the inbox's record, also when it had to queue."""
    gate = Gate()
    runner = make_runner(gate.agent, guardrails=[FunctionGuardrail("g", judge)])
    if queued:
        await runner.start("slow", user="ada", session="s")
        await gate.began.wait()
        gate.go.set()
    assert (await ask(runner, "card 4111", message_id="m")).text == "answer to card ****"
    receipt = await runner.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert receipt.message.content.text == "card ****"
    assert "4111" not in str(await log(runner))


async def test_what_is_refused_when_it_is_regenerated_keeps_its_answer(make_runner: MakeRunner) -> None:
    """A44: the guardrails look first; only then is anything hidden."""
    closed: list[bool] = []
    block = GuardrailVerdict("block", reason="no")
    guardrail = FunctionGuardrail("g", lambda place, _: block if closed and place == "message" else None)
    runner = make_runner(Gate().agent, guardrails=[guardrail])
    first = await ask(runner, "one")
    closed.append(True)
    with pytest.raises(MessageBlocked):
        await runner.regenerate(key(), first.invocation_id)
    assert await log(runner) == [("user", "one"), ("gated", "answer to one")]


SURROGATE = "\ud83d"
LONG = "y" * 300_000


def raw(json: str) -> Content:
    """Content as it comes over a wire, with fields that we do not know."""
    return Content.model_validate_json(json)


TOO_LARGE = [
    LONG,
    raw(f'{{"parts": [{{"kind": "text", "text": "x"}}, {{"kind": "new", "stuff": "{LONG}"}}]}}'),
    raw(f'{{"parts": [{{"kind": "text", "text": "x", "extra": "{LONG}"}}]}}'),
    raw(f'{{"parts": [{{"kind": "text", "text": "x"}}], "extra": "{LONG}"}}'),
    Content(parts=(TextPart(text="x"), BlobPart(data=b"1", name=LONG))),
]


@pytest.mark.parametrize("message", TOO_LARGE, ids=range(len(TOO_LARGE)))
async def test_a_message_is_measured_whole(make_runner: MakeRunner, message: str | Content) -> None:
    """A25: whatever would be stored counts, known to us or not."""
    runner = make_runner(Gate().agent)
    with pytest.raises(MessageTooLarge):
        await ask(runner, message)
    with pytest.raises(MessageTooLarge):
        await ask(runner, "x", context=MessageContext(attributes={"a": LONG}))
    assert await runner.store.open(key()) is None


@pytest.mark.parametrize(
    ("message", "options"),
    [
        (f"x{SURROGATE}", {}),
        (Content(parts=(TextPart(text="x"), BlobPart(data=b"1", name=SURROGATE))), {}),
        ("x", {"context": MessageContext(attributes={"a": SURROGATE})}),
        ("x", {"context": MessageContext(direct_agent_id=SURROGATE)}),
        ("x", {"message_id": SURROGATE}),
        ("x", {"session": SURROGATE}),
        (None, {}),
    ],
)
async def test_a_message_that_cannot_be_stored_is_refused(make_runner: MakeRunner, message: Any, options: Any) -> None:
    """A25: with a typed error, in a busy session too, and without a trace."""
    gate = Gate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageError):
        await ask(runner, message, **options)
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    assert await runner.store.inbox.queued(key()) is None


async def test_a_busy_session_rejects_also_behind_a_message_left_behind(make_runner: MakeRunner) -> None:
    """A32: what was left behind runs here, so the session is busy."""
    gate = Gate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(SessionBusy):
        await ask(runner, "three", config=RunConfig(when_busy="reject"))
    gate.go.set()
    assert (await behind.result()).text == "answer to two"
