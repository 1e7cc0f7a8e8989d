"""Two messages at once on one session: queue, reject, interrupt; many sessions side by side (A32)."""

import asyncio
from collections.abc import Callable

import pytest
from runner_play import Holds, InFront, ask, key, soon

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import QueueFull, SessionBusy, SessionError

MakeRunner = Callable[..., Runner]


@agent
async def counts(message: str, context: AgentContext) -> str:
    await context.say(f"{message} begins")
    await asyncio.sleep(0)
    return f"{message} ends"


async def test_twenty_messages_at_once_are_answered_in_order(make_runner: MakeRunner) -> None:
    """A32: none lost, none interleaved."""
    runner = make_runner(counts)
    started = await asyncio.gather(*(runner.start(str(i), user="ada", session="s") for i in range(20)))
    results = await asyncio.gather(*(invocation.result() for invocation in started))
    assert [r.text for r in results] == [f"{i} begins\n{i} ends" for i in range(20)]
    texts = [e.text for e in await runner.store.events(key()) if e.text]
    assert texts == [t for i in range(20) for t in (str(i), f"{i} begins", f"{i} ends")]
    sequences = [e.sequence for e in await runner.store.events(key())]
    assert sequences == list(range(1, len(sequences) + 1))


async def test_sessions_run_side_by_side(make_runner: MakeRunner) -> None:
    inside = 0
    both = asyncio.Event()

    @agent
    async def meets() -> str:
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        return "met"

    runner = make_runner(meets)
    one, two = await asyncio.gather(ask(runner, "x", "one"), ask(runner, "x", "two"))
    assert (one.text, two.text) == ("met", "met")


def slow_agent() -> tuple[FunctionAgent, asyncio.Event, asyncio.Event]:
    began, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(message: str) -> str:
        if message == "slow":
            began.set()
            await go.wait()
        return f"answer to {message}"

    return slow, began, go


async def test_a_busy_session_may_reject(make_runner: MakeRunner) -> None:
    """A32: the rejected message is not stored."""
    slow, began, go = slow_agent()
    runner = make_runner(slow)
    first = await runner.start("slow", user="ada", session="s")
    await began.wait()
    with pytest.raises(SessionBusy):
        await runner.start("quick", user="ada", session="s", config=RunConfig(when_busy="reject"))
    go.set()
    await first.result()
    assert [e.text for e in await runner.store.events(key())] == ["slow", "answer to slow"]


async def test_a_newer_message_may_interrupt(make_runner: MakeRunner) -> None:
    """A32, A23: the running one ends as cancelled, then the newer is answered."""
    slow, began, _ = slow_agent()
    runner = make_runner(slow)
    first = await runner.start("slow", user="ada", session="s")
    await began.wait()
    second = await ask(runner, "quick", config=RunConfig(when_busy="interrupt"))
    assert second.text == "answer to quick"
    end = (await first.result()).end
    assert end is not None
    assert end.reason == "cancelled"


async def test_a_queued_message_can_be_cancelled(make_runner: MakeRunner) -> None:
    slow, began, go = slow_agent()
    runner = make_runner(slow)
    first = await runner.start("slow", user="ada", session="s")
    await began.wait()
    second = await runner.start("never", user="ada", session="s")
    third = await runner.start("third", user="ada", session="s")
    second.interrupt()
    go.set()
    assert (await first.result()).text == "answer to slow"
    assert (await third.result()).text == "answer to third"
    end = (await second.result()).end
    assert end is not None
    assert end.reason == "cancelled"
    assert "never" not in [e.text for e in await runner.store.events(key())]


async def test_who_attaches_while_a_queued_message_is_cancelled_is_told_at_once(make_runner: MakeRunner) -> None:
    """A32: although the message before it is still being answered."""
    slow, began, go = slow_agent()
    inner = make_runner(slow).store
    inbox = Holds(inner.inbox, "refuse")
    runner = make_runner(slow, store=InFront(inner, inbox=inbox))
    first = await runner.start("slow", user="ada", session="s")
    await began.wait()
    second = await runner.start("never", user="ada", session="s")
    second.interrupt()
    await inbox.reached.wait()
    attached = await runner.attach(user="ada", session="s", message_id=second.message_id)
    inbox.go.set()
    with pytest.raises(SessionError, match="cancelled"):
        await soon(attached.result())
    go.set()
    assert (await first.result()).text == "answer to slow"


async def test_a_full_queue_refuses(make_runner: MakeRunner) -> None:
    slow, began, go = slow_agent()
    runner = make_runner(slow)
    config = RunConfig(limits=Limits(queue=1))
    first = await runner.start("slow", user="ada", session="s", config=config)
    await began.wait()
    waiting = await runner.start("one", user="ada", session="s", config=config)
    with pytest.raises(QueueFull):
        await runner.start("two", user="ada", session="s", config=config)
    go.set()
    await first.result()
    assert (await waiting.result()).text == "answer to one"


async def test_a_message_left_in_the_inbox_is_answered_first(make_runner: MakeRunner) -> None:
    """Decision 3: accepted means stored; whoever comes next drains the inbox in order."""
    from turnwise.facts.content import text_content
    from turnwise.facts.messages import Message

    runner = make_runner(counts)
    left = Message(id="left", content=text_content("left", "user"))
    await runner.store.inbox.accept(key(), left, create=True, limit=10)
    assert (await ask(runner, "next")).text == "next begins\nnext ends"
    assert [e.text for e in await runner.store.events(key()) if e.author == "user"] == ["left", "next"]


async def test_the_same_message_twice_at_once_is_one_answer(make_runner: MakeRunner) -> None:
    """Decision 3."""
    runner = make_runner(counts)
    one, two = await asyncio.gather(ask(runner, "x", message_id="m"), ask(runner, "x", message_id="m"))
    assert one.text == two.text == "x begins\nx ends"
    assert [e.text for e in await runner.store.events(key()) if e.author == "user"] == ["x"]


async def test_two_runners_on_one_store_take_turns(make_runner: MakeRunner, tmp_path: object) -> None:
    """E7: one writer per session, also when the other runner holds it."""
    from turnwise.stores.sql import SqlSessionStore

    url = f"sqlite:///{tmp_path}/s.db"
    one = make_runner(counts, store=SqlSessionStore(url), issuer=None)
    two = make_runner(counts, store=SqlSessionStore(url), issuer=None)
    results = await asyncio.gather(*(ask(runner, f"{n}", "s") for n in range(4) for runner in (one, two)))
    assert len(results) == 8
    assert all(r.end is not None and r.end.reason == "completed" for r in results)
    events = [e for e in await one.store.events(key()) if e.text]
    for i in range(0, len(events), 3):
        assert [e.text for e in events[i : i + 3]] == [
            events[i].text,
            f"{events[i].text} begins",
            f"{events[i].text} ends",
        ]
