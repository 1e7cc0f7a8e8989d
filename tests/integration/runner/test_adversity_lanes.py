"""The line before a session under adversity: callers who give up, full processes, interrupts, closing, threads (A18, A23, A25,
A32, A43, A44, E7).
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from runner_play import (
    Gate,
    Holds,
    InFront,
    ask,
    direct,
    key,
    leave_behind,
    one_answers_and_one_looks,
    reason,
    soon,
    texts,
    until,
)

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.facts.errors import (
    InvocationMissing,
    MessageBlocked,
    MessageError,
    QueueFull,
    SessionBusy,
    SessionError,
)
from turnwise.facts.limits import ProcessConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.fakes import FunctionGuardrail

Process = Callable[..., Runner]
INTERRUPT = RunConfig(when_busy="interrupt")


@agent(name="gated")
async def quick(message: str) -> str:
    """What `Gate` runs, in a process that does not hold it."""
    return f"quick answer to {message}"


class Busy:
    """An agent that holds the messages that begin with `slow` until `go` is set, and counts who runs."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.ran: list[str] = []
        self.most = 0
        now: dict[str, int] = {}

        @agent
        async def busy(message: str, context: AgentContext) -> str:
            self.ran.append(message)
            session = context.session.id
            now[session] = now.get(session, 0) + 1
            self.most = max(self.most, now[session])
            await context.say(f"begin {message}")
            if message.startswith("slow"):
                self.began.set()
                await self.go.wait()
            now[session] -= 1
            return f"answer to {message}"

        self.agent = busy

    def said(self, *messages: str) -> list[str]:
        """The log of these messages, when each was answered once, in this order."""
        return [text for message in messages for text in (message, f"begin {message}", f"answer to {message}")]


async def give_up(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_caller_who_gives_up_at_a_full_gate_makes_no_second_lane(process: Process) -> None:
    """A32: the message is still being accepted; it and the next are answered once, one after the other."""
    busy = Busy()
    store = process(busy.agent).store
    accept = Holds(store.inbox, "accept")
    runner = process(busy.agent, store=InFront(store, inbox=accept), process=ProcessConfig(concurrency=2))
    full = [await runner.start("slow", user="ada", session=name) for name in ("a", "b")]
    leaver = asyncio.create_task(runner.start("slow one", user="ada", session="s", message_id="one"))
    await soon(accept.reached.wait())
    await give_up(leaver)
    starting = asyncio.create_task(runner.start("slow two", user="ada", session="s"))
    await asyncio.wait({starting}, timeout=0.1)
    accept.go.set()
    second = await soon(starting)
    busy.go.set()
    busy.go.clear()
    await soon(asyncio.gather(*(each.result() for each in full)))
    await asyncio.sleep(0.05)
    busy.go.set()
    assert (await soon(second.result())).text == "begin slow two\nanswer to slow two"
    await soon(runner.idle())
    assert sorted(busy.ran) == ["slow", "slow", "slow one", "slow two"]
    assert busy.most == 1
    assert await texts(runner) == busy.said("slow one", "slow two")


async def test_a_caller_who_gives_up_at_a_slow_guardrail_makes_no_second_lane(process: Process) -> None:
    """A32, A18: the one that was answered meanwhile is done, and the next ones take turns."""
    busy = Busy()
    looking, looked = asyncio.Event(), asyncio.Event()

    class Slow:
        name = "slow"

        async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
            if (place, content.text) == ("message", "slow one"):
                looking.set()
                await looked.wait()
            return ALLOW

    runner = process(busy.agent, guardrails=[Slow()])
    first = await runner.start("slow", user="ada", session="s")
    leaver = asyncio.create_task(runner.start("slow one", user="ada", session="s"))
    await soon(looking.wait())
    await give_up(leaver)
    busy.go.set()
    await soon(first.result())
    busy.go.clear()
    starting = asyncio.create_task(runner.start("slow two", user="ada", session="s"))
    await asyncio.wait({starting}, timeout=0.1)
    looked.set()
    second = await soon(starting)
    await asyncio.sleep(0.05)
    busy.go.set()
    await soon(second.result())
    await soon(runner.idle())
    assert sorted(busy.ran) == ["slow", "slow one", "slow two"]
    assert busy.most == 1
    assert await texts(runner) == busy.said("slow", "slow one", "slow two")


@pytest.mark.parametrize("method", ["open", "accept", None])
async def test_close_does_not_wait_for_another_process(process: Process, method: str | None) -> None:
    """A22, E7: its callers are told to ask again, also those whose message is on its way; what is in the inbox stays."""
    gate = Gate()
    one, inner = process(gate.agent), process(gate.agent).store
    held = Holds(inner.inbox if method == "accept" else inner, method or "")
    two = process(gate.agent, store=InFront(inner, inbox=held) if method == "accept" else held)
    first = await one.start("one", user="ada", session="s")
    await gate.began.wait()
    starting = asyncio.create_task(two.start("two", user="ada", session="s", message_id="two"))
    await soon(held.reached.wait() if method else asyncio.wait({starting}))
    closing = asyncio.create_task(two.close())
    await asyncio.sleep(0)
    held.go.set()
    await soon(closing)
    with pytest.raises(SessionBusy):
        await soon((await starting).result())
    gate.go.set()
    await soon(first.result())
    assert (await soon(ask(one, "two", message_id="two"))).text == "answer to two"


async def test_close_waits_for_a_message_that_is_being_accepted(process: Process) -> None:
    """A22, decision 3: also if nothing else runs by then, and its caller gave up; what was accepted here is answered here."""
    gate = Gate()
    store = process(gate.agent).store
    accept = Holds(store.inbox, "accept")
    runner = process(gate.agent, store=InFront(store, inbox=accept))
    first = await runner.start("one", user="ada", session="s")
    await gate.began.wait()
    leaver = asyncio.create_task(runner.start("two", user="ada", session="s"))
    await soon(accept.reached.wait())
    await give_up(leaver)
    closing = asyncio.create_task(runner.close())
    gate.go.set()
    await soon(first.result())
    await asyncio.wait({closing}, timeout=0.05)
    assert not closing.done()
    accept.go.set()
    await soon(closing)
    assert await texts(process(gate.agent)) == ["one", "answer to one", "two", "answer to two"]


async def test_close_leaves_the_messages_of_others_to_them(process: Process) -> None:
    """A22: what this process accepted is answered here, and no more than that."""
    gate = Gate()
    one, two = process(gate.agent), process(quick)
    first = await one.start("one", user="ada", session="s")
    await gate.began.wait()
    second = await two.start("two", user="ada", session="s")
    closing = asyncio.create_task(one.close())
    await asyncio.sleep(0)
    gate.go.set()
    await soon(closing)
    assert (await first.result()).text == "answer to one"
    assert (await soon(second.result())).text == "quick answer to two"


async def test_two_invocations_of_a_session_are_cancelled_at_once(process: Process) -> None:
    """A23, A42: one that another process answers, and one that waits; neither word is lost over the other."""
    gate = Gate()

    @agent
    async def form(context: AgentContext) -> str:
        return f"Saved {(await context.ask('Your name?')).text}"

    root = agent(name="root", children=[form, gate.agent])(lambda: "root")
    one, two = process(root), process(root)
    wait = await ask(one, "register", context=direct("form"))
    running = await one.start("work", user="ada", session="s", context=direct("gated"))
    await gate.began.wait()
    assert running.id is not None
    await soon(asyncio.gather(*(two.sessions.cancel(key(), id_) for id_ in (running.id, wait.invocation_id))))
    assert reason(await soon(running.result())) == "cancelled"
    assert (await one.sessions.get(key())).head.invocations == {}


def blocks(place: Place, text: str) -> GuardrailVerdict | None:
    return GuardrailVerdict("block", reason="no") if text == "bad" else None


@pytest.mark.parametrize(("queue", "text", "error"), [(0, "next", QueueFull), (9, "bad", MessageBlocked)])
async def test_an_interrupting_message_that_is_refused_interrupts_nothing(
    process: Process, queue: int, text: str, error: type[Exception]
) -> None:
    """A32, A18."""
    gate = Gate()
    config = RunConfig(when_busy="interrupt", limits=Limits(queue=queue))
    runner = process(gate.agent, config=config, guardrails=[FunctionGuardrail("g", blocks)])
    running = await runner.start("work", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(error):
        await runner.start(text, user="ada", session="s")
    gate.go.set()
    assert (await soon(running.result())).text == "answer to work"


async def test_a_full_process_interrupts_and_rejects_as_others_do(process: Process) -> None:
    """A32: what runs elsewhere is interrupted, though nothing can begin here; who rejects is not put in line."""
    gate, busy = Gate(), Busy()
    elsewhere, full = process(gate.agent), process(busy.agent, process=ProcessConfig(concurrency=1))
    blocking = await full.start("slow", user="ada", session="other")
    running = await elsewhere.start("work", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(SessionBusy):
        await full.start("no", user="ada", session="s", message_id="no", config=RunConfig(when_busy="reject"))
    assert await full.store.inbox.receipt(key(), "no") is None
    assert not running.feed.is_closed
    newer = await full.start("next", user="ada", session="s", config=INTERRUPT)
    assert reason(await soon(running.result())) == "cancelled"
    gate.go.set()
    busy.go.set()
    assert "answer to next" in (await soon(newer.result())).text
    assert "answer to slow" in (await soon(blocking.result())).text


async def test_an_interrupt_stops_what_runs_elsewhere_and_not_what_is_on_its_way(process: Process) -> None:
    """A32: a message that this process is about to begin waits, and is answered in its turn."""
    gate = Gate()
    running, two, store = await one_answers_and_one_looks(process, gate)
    second = asyncio.create_task(two.start("two", user="ada", session="s"))
    await soon(store.reached.wait())
    third = asyncio.create_task(two.start("three", user="ada", session="s", config=INTERRUPT))
    await asyncio.wait({third}, timeout=0.05)
    store.go.set()
    handles = await soon(asyncio.gather(second, third))
    assert reason(await soon(running.result())) == "cancelled"
    gate.go.set()
    assert [(await soon(handle.result())).text for handle in handles] == ["answer to two", "answer to three"]


def in_a_thread(work: Callable[[], Any]) -> "asyncio.Future[Any]":
    """What the work gives in a thread of its own, which keeps no failing test from its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            loop.call_soon_threadsafe(future.set_exception, error)
        else:
            loop.call_soon_threadsafe(future.set_result, result)

    threading.Thread(target=run, daemon=True).start()
    return future


async def test_threads_and_an_event_loop_share_a_session(process: Process) -> None:
    """A32, E7: all of them get their own answer, in whichever loop it is given, and nothing is interleaved."""
    busy = Busy()
    runner = process(busy.agent)
    first = await runner.start("slow", user="ada", session="s")
    threads = [in_a_thread(partial(runner.run_sync, f"sync {n}", user="ada", session="s")) for n in range(2)]
    await soon(until(runner, lambda session: session.queued == 2))
    busy.go.set()
    results = await soon(asyncio.gather(first.result(), *threads, ask(runner, "async")))
    assert [result.text.split("\n")[-1] for result in results] == [
        f"answer to {message}" for message in ("slow", "sync 0", "sync 1", "async")
    ]
    assert sorted(busy.ran) == ["async", "slow", "sync 0", "sync 1"]
    assert busy.most == 1


async def test_a_thread_has_its_answer_though_others_wait_for_theirs(process: Process) -> None:
    """E7, A32: `run_sync` waits for its own message alone."""
    began = {name: threading.Event() for name in ("one", "two")}
    go = {name: threading.Event() for name in began}

    @agent
    def waits(message: str) -> str:
        began[message].set()
        go[message].wait(60)
        return f"answer to {message}"

    runner = process(waits)
    first = in_a_thread(lambda: runner.run_sync("one", user="ada", session="s"))
    await soon(asyncio.to_thread(began["one"].wait, 60))
    second = in_a_thread(lambda: runner.run_sync("two", user="ada", session="s"))
    await soon(until(runner, lambda session: session.queued))
    try:
        go["one"].set()
        assert (await soon(first)).text == "answer to one"
        assert not second.done()
    finally:
        go["two"].set()
    assert (await soon(second)).text == "answer to two"


async def test_regenerate_is_never_rejected_for_a_message_in_between(process: Process) -> None:
    """A44, A32: what was rewound is answered again, behind what another process left in the inbox."""
    runner = process(quick, config=RunConfig(when_busy="reject"))
    first = await ask(runner, "one")
    await leave_behind(runner, "left")
    again = await runner.regenerate(key(), first.invocation_id)
    assert (await soon(again.result())).text == "quick answer to one"
    assert await texts(runner) == ["left", "quick answer to left", "one", "quick answer to one"]


async def test_nothing_is_said_of_a_problem_that_its_reader_was_told(process: Process) -> None:
    """E7: no `exception was never retrieved` when nobody asks a handle for its acceptance."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: said.append(about))
    runner = process(quick)
    await leave_behind(runner, "hi", "m")
    await runner.store.inbox.refuse(key(), "m", "cancelled")
    problems = await asyncio.gather(
        (await runner.attach(user="ada", session="s", message_id="m")).result(), return_exceptions=True
    )
    assert [type(problem) for problem in problems] == [SessionError]
    del problems
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert said == []


NOTHING: list[tuple[dict[str, str], type[Exception]]] = [
    ({"invocation_id": "\x00"}, MessageError),
    ({"invocation_id": "\ud800"}, MessageError),
    ({"message_id": "\x00"}, MessageError),
    ({"message_id": "\ud800"}, MessageError),
    ({"message_id": ""}, MessageError),
]


@pytest.mark.parametrize(("asked", "error"), NOTHING, ids=range(len(NOTHING)))
async def test_who_attaches_by_an_impossible_id_is_told_so(process: Process, asked: dict[str, Any], error: Any) -> None:
    """A25, E7."""
    runner = process(quick)
    await ask(runner, "one")
    with pytest.raises(error):
        await runner.attach(user="ada", session="s", **asked)


async def test_a_rewind_is_no_invocation_to_attach_to(process: Process) -> None:
    """A44, E7: though its event has an id of that kind."""
    runner = process(quick)
    first = await ask(runner, "one")
    await runner.sessions.rewind(key(), first.invocation_id)
    rewind = (await runner.store.events(key()))[-1]
    assert rewind.actions.rewind is not None
    with pytest.raises(InvocationMissing):
        await runner.attach(user="ada", session="s", invocation_id=rewind.invocation_id)
