"""Several processes on one store, as runners that share a file; some die; and threads (A18, A21, A26, A32, A44, E7)."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runner_play import ask, key, log, reason

from turnwise import AgentContext, Content, Parallel, RunConfig, Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.errors import SessionBusy, StaleWriter, StoreUnavailable
from turnwise.facts.messages import MessageContext
from turnwise.ports.agent import Agent
from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore
from turnwise.testing.fakes import FunctionGuardrail

MakeRunner = Callable[..., Runner]
Process = Callable[..., Runner]


@pytest.fixture
def process(make_runner: MakeRunner, tmp_path: Path) -> Process:
    """Makes a runner with a connection of its own to the one file."""

    def make(root: Agent, **options: Any) -> Runner:
        options.setdefault("store", store())
        return make_runner(root, issuer=None, **options)

    def store() -> SqlSessionStore:
        return SqlSessionStore(f"sqlite:///{tmp_path}/s.db")

    return make


class Gate:
    """An agent that holds every message until `go` is set, in whatever process."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()

        @agent
        async def gated(message: str) -> str:
            self.began.set()
            await self.go.wait()
            return f"answer to {message}"

        self.agent: FunctionAgent = gated


@agent
async def echo(message: str) -> str:
    return f"echo {message}"


async def test_a_message_that_waits_for_another_process_is_prepared_once(process: Process) -> None:
    """A18, A26: guardrails look once and a blob is saved once, however often it is tried."""
    looked: list[str] = []
    artifacts = InMemoryArtifactStore()
    gate = Gate()
    one = process(gate.agent)
    guardrail = FunctionGuardrail("g", lambda place, _: looked.append(place))
    config = RunConfig(save_input_blobs_as_artifacts=True)
    two = process(echo, artifacts=artifacts, config=config, guardrails=[guardrail])
    first = await one.start("x", user="ada", session="s")
    await gate.began.wait()
    second = await two.start(Content(parts=(TextPart(text="hi"), BlobPart(data=b"1"))), user="ada", session="s")
    await asyncio.sleep(0.12)
    gate.go.set()
    await first.result()
    assert (await second.result()).text.startswith("echo hi")
    assert looked == ["message", "answer"]
    assert len(await artifacts.list(key())) == 1


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
    """A44: no rewind, no deletion, no cancel from elsewhere; its answer is stored."""
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
        two.sessions.cancel(key(), running.id),
        two.regenerate(key(), done.invocation_id),
    ):
        with pytest.raises(SessionBusy):
            await change
    gate.go.set()
    assert (await running.result()).text == "answer to two"
    await two.sessions.delete_user("ada")
    assert await one.store.open(key()) is None


class ShortLease:
    """A store whose leases are over at once, as those of a process that has died are in time."""

    def __init__(self, inner: SqlSessionStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def begin(self, session: Any, lease: Any, *arguments: Any, **options: Any) -> Any:
        return await self._inner.begin(session, lease._replace(seconds=0.01), *arguments, **options)


async def dies_answering(process: Process, message_id: str) -> Any:
    """Begins an answer in a process that does not go on; gives what lets it go on after all."""
    gate = Gate()
    dead = process(gate.agent, store=ShortLease(process(echo).store))  # type: ignore[arg-type]
    invocation = await dead.start("hi", user="ada", session="s", message_id=message_id)
    await gate.began.wait()
    await asyncio.sleep(0.02)
    return gate, invocation


async def test_what_a_dead_process_began_ends_at_the_next_message(process: Process) -> None:
    """Decision 6, A33: a retry says so at once, the next message closes it, and if it was not dead it is refused."""
    gate, invocation = await dies_answering(process, "m")
    alive = process(echo)
    with pytest.raises(SessionBusy):
        await ask(alive, "hi", message_id="m")
    assert (await ask(alive, "next")).text == "echo next"
    head = (await alive.sessions.get(key())).head
    assert head.invocations == {}
    retried = await ask(alive, "hi", message_id="m")
    assert (retried.text, reason(retried)) == ("", "cancelled")
    gate.go.set()
    with pytest.raises(StaleWriter):
        await invocation.result()
    assert [text for _, text in await log(alive) if text] == ["hi", "next", "echo next"]


async def test_what_a_dead_process_began_can_be_cancelled(process: Process) -> None:
    """A23."""
    gate, invocation = await dies_answering(process, "m")
    alive = process(echo)
    await alive.sessions.cancel(key(), invocation.id)
    assert (await alive.sessions.get(key())).head.invocations == {}
    gate.go.set()
    with pytest.raises(StaleWriter):
        await invocation.result()


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
    """A21: whichever write it is, the caller sees it, and the next message finds nothing open."""

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
    with pytest.raises(SessionBusy):
        await two.sessions.cancel(key(), first.id)
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
