"""Several processes on one store, as runners that share a file; some die; and threads (A18, A21, A26, A32, A44, E7)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import Gate, NoHeartbeat, ask, key, log, reason

from turnwise import AgentContext, Content, Parallel, RunConfig, Runner, SqlSessionStore, agent
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.errors import SessionBusy, StoreUnavailable
from turnwise.facts.messages import MessageContext
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.fakes import FunctionGuardrail

Process = Callable[..., Runner]


@agent
async def echo(message: str) -> str:
    return f"echo {message}"


@agent(name="gated")
async def quick(message: str) -> str:
    """What `Gate` runs, in a process that does not hold it."""
    return f"echo {message}"


async def test_a_message_that_waits_for_another_process_is_prepared_once(process: Process) -> None:
    """A18, A26: guardrails look once and a blob is saved once, however often it is tried."""
    looked: list[str] = []
    gate, artifacts = Gate(), InMemoryArtifactStore()
    guardrail = FunctionGuardrail("g", lambda place, text: looked.append(text) if place == "message" else None)
    config = RunConfig(save_input_blobs_as_artifacts=True)
    shared: dict[str, Any] = {"artifacts": artifacts, "config": config, "guardrails": [guardrail]}
    one, two = process(gate.agent, **shared), process(gate.agent, **shared)
    first = await one.start("x", user="ada", session="s")
    await gate.began.wait()
    second = await two.start(Content(parts=(TextPart(text="hi"), BlobPart(data=b"1"))), user="ada", session="s")
    gate.go.set()
    await first.result()
    answered = await second.result()
    assert answered.text.startswith("answer to hi")
    assert looked == ["x", "hi"]
    saved = await artifacts.list(key())
    assert answered.events[0].actions.artifact_versions == {saved[0].name: 1}
    assert len(saved) == 1


async def test_a_message_behind_another_process_can_be_cancelled(process: Process) -> None:
    """A23, A32: it leaves the inbox before the other process is done, and that one's answer is not touched."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    first = await one.start("one", user="ada", session="s")
    await gate.began.wait()
    second = await two.start("two", user="ada", session="s", message_id="two")
    await second.cancel()
    result = await second.result()
    assert (reason(result), result.events) == ("cancelled", ())
    assert await one.store.inbox.queued(key()) is None
    assert not first.feed.is_closed
    gate.go.set()
    assert (await first.result()).text == "answer to one"
    assert [text for _, text in await log(one)] == ["one", "answer to one"]


async def test_what_another_process_answers_is_not_changed(process: Process) -> None:
    """A44: no rewind, no deletion from elsewhere; its answer is stored."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    gate.go.set()
    done = await ask(one, "one")
    gate.go.clear()
    gate.began.clear()
    running = await one.start("two", user="ada", session="s")
    await gate.began.wait()
    assert running.id is not None
    for change in (
        two.sessions.rewind(key(), done.invocation_id),
        two.sessions.delete(key()),
        two.sessions.delete_user("ada"),
        two.regenerate(key(), done.invocation_id),
    ):
        with pytest.raises(SessionBusy):
            await change
    gate.go.set()
    assert (await running.result()).text == "answer to two"
    await two.sessions.delete_user("ada")
    assert await one.store.open(key()) is None


async def dies_answering(process: Process, message_id: str) -> Any:
    """Begins an answer in a process that does not go on; gives what lets it go on after all."""
    gate = Gate()
    dead = process(gate.agent, store=NoHeartbeat(process(echo).store))
    invocation = await dead.start("hi", user="ada", session="s", message_id=message_id)
    await gate.began.wait()
    await asyncio.sleep(0.02)
    return gate, invocation


async def test_what_a_dead_process_began_is_answered_before_the_next_message(process: Process) -> None:
    """Decision 6, A33: and if it was not dead it is refused; its own reader gets the answer that counts."""
    gate, invocation = await dies_answering(process, "m")
    alive = process(quick)
    assert (await ask(alive, "next")).text == "echo next"
    head = (await alive.sessions.get(key())).head
    assert head.invocations == {}
    retried = await ask(alive, "hi", message_id="m")
    assert (retried.text, reason(retried)) == ("echo hi", "completed")
    gate.go.set()
    assert (await invocation.result()).text == "echo hi"
    assert [text for _, text in await log(alive) if text] == ["hi", "echo hi", "next", "echo next"]


async def test_what_a_dead_process_began_can_be_cancelled(process: Process) -> None:
    """A23."""
    gate, invocation = await dies_answering(process, "m")
    alive = process(echo)
    await alive.sessions.cancel(key(), invocation.id)
    assert (await alive.sessions.get(key())).head.invocations == {}
    gate.go.set()
    assert reason(await invocation.result()) == "cancelled"


class Flaky:
    """A store that cannot be reached at its n-th write."""

    def __init__(self, inner: SqlSessionStore, fail: int) -> None:
        self._inner, self._left = inner, fail

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("begin", "append", "release"):
            return method

        async def write(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise StoreUnavailable("The disk is away.")
            return await method(*arguments, **options)

        return write


@pytest.mark.parametrize("fail", range(1, 8))
async def test_a_write_that_fails_leaves_a_usable_session(process: Process, fail: int) -> None:
    """A21: whichever write it is, the caller sees it; the next message finds it answered, and nothing open."""

    @agent
    async def b() -> Any:
        yield "three"
        yield "four"

    @agent
    async def a(context: AgentContext) -> str:
        await context.say("one")
        await context.transfer("b")
        return "two"

    @agent(children=[a, b])
    async def root(context: AgentContext) -> None:
        await context.transfer("a")

    runner = process(root, store=Flaky(process(echo).store, fail))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await ask(runner, "hi")
    after = await ask(runner, "again", context=MessageContext(direct_agent_id="b"))
    assert after.text == "three\nfour"
    assert (await runner.sessions.get(key())).head.invocations == {}


def two_questions(thought: asyncio.Event, go: asyncio.Event) -> Parallel:
    @agent
    async def a(context: AgentContext) -> str:
        return f"A {(await context.ask('qa?')).text}"

    @agent
    async def b(context: AgentContext) -> str:
        await asyncio.sleep(0.01)
        await context.say("thinking")
        thought.set()
        await go.wait()
        return f"B {(await context.ask('qb?')).text}"

    return Parallel("both", [a, b])


async def test_a_repeated_message_is_followed_past_the_first_of_two_questions(process: Process) -> None:
    """Decision 3, A41: its invocation waits already, but a sibling is still at work."""
    thought, go = asyncio.Event(), asyncio.Event()
    one, two = process(two_questions(thought, go)), process(two_questions(thought, go))
    first = await one.start("hi", user="ada", session="s", message_id="m")
    await thought.wait()
    second = await two.start("hi", user="ada", session="s", message_id="m")
    assert first.id is not None
    await asyncio.sleep(0.1)
    assert not second.feed.is_closed
    go.set()
    assert (await second.result()).text == (await first.result()).text == "qa?\nthinking\nqb?"
    assert (await ask(two, "hi", message_id="m")).text == "qa?\nthinking\nqb?"


async def test_the_same_message_in_two_processes_at_once_is_one_answer(process: Process) -> None:
    """Decision 3, E7."""
    processes = [process(echo) for _ in range(3)]
    results = await asyncio.gather(*(ask(runner, "hi", message_id="m") for runner in processes))
    assert [r.text for r in results] == ["echo hi"] * 3
    assert await log(processes[0]) == [("user", "hi"), ("echo", "echo hi")]


async def test_a_message_rewound_or_in_a_fork_keeps_its_id(process: Process) -> None:
    """A44, decision 3: a retry gives the recorded answer; a fork has an inbox of its own."""
    runner = process(echo)
    first = await ask(runner, "one", message_id="m")
    await runner.sessions.fork(key(), "copy")
    assert (await ask(runner, "other", "copy", message_id="m")).text == "echo other"
    assert [text for _, text in await log(runner, "copy")] == ["one", "echo one", "other", "echo other"]
    await runner.sessions.rewind(key(), first.invocation_id)
    assert (await ask(runner, "one", message_id="m")).text == "echo one"
    assert [text for _, text in await log(runner)] == [""]


@pytest.mark.parametrize("id_", ["m", "a:b", ":", None])
async def test_regenerate_answers_in_the_context_of_the_message(process: Process, id_: str | None) -> None:
    """A44: whatever its id is made of, and in a fork where another message has the same id."""
    seen: list[Any] = []

    @agent
    async def sees(context: AgentContext) -> str:
        seen.append((context.message_context.attributes.get("n"), context.message_context.roles))
        return "seen"

    runner = process(sees)
    mine = MessageContext(attributes={"n": 1}, roles=("vip",))
    first = await ask(runner, "hi", message_id=id_, context=mine)
    await runner.sessions.fork(key(), "copy")
    await ask(runner, "hi", "copy", message_id=id_, context=MessageContext(attributes={"n": 2}))
    for session in ("s", "copy"):
        again = await runner.regenerate(key(session), first.invocation_id)
        await again.result()
    assert seen == [(1, ("vip",)), (2, ()), (1, ("vip",)), (1, ("vip",))]


async def test_close_lets_go_of_who_follows_another_process(process: Process) -> None:
    """E7: the stores are closed then; the reader is told, and the answer is not touched."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    first = await one.start("x", user="ada", session="s", message_id="m")
    await gate.began.wait()
    follower = await two.start("x", user="ada", session="s", message_id="m")
    await two.close()
    with pytest.raises(SessionBusy):
        await follower.result()
    gate.go.set()
    assert (await first.result()).text == "answer to x"


@pytest.mark.parametrize("sessions", [1, 4])
def test_the_sync_door_takes_any_number_of_threads(process: Process, sessions: int) -> None:
    """One sync door: on one session they take turns, on several they run side by side."""
    runner = process(echo)
    answers: dict[int, str] = {}

    def go(n: int) -> None:
        answers[n] = runner.run_sync(str(n), user="ada", session=f"s{n % sessions}").text

    threads = [threading.Thread(target=go, args=(n,), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == {n: f"echo {n}" for n in range(4)}
