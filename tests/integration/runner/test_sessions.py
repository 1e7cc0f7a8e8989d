"""Rewind, regenerate, fork, delete (A44), over the whole system."""

import asyncio
from collections.abc import Callable

import pytest
from runner_play import ask, key

from turnwise import AgentContext, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import InvocationMissing, SessionBusy, SessionExists, SessionMissing
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]


def counter() -> FunctionAgent:
    runs: list[str] = []

    @agent
    async def counter(message: str, context: AgentContext) -> str:
        runs.append(message)
        context.state["n"] = context.state.get("n", 0) + 1
        context.state["user:total"] = context.state.get("user:total", 0) + 1
        return f"{message} n={context.state['n']} run={len(runs)}"

    return counter


async def test_rewind_takes_the_session_back_and_keeps_the_log(make_runner: MakeRunner) -> None:
    """A44."""
    runner = make_runner(counter())
    await ask(runner, "one")
    two = await ask(runner, "two")
    await ask(runner, "three")
    await runner.sessions.rewind(key(), two.invocation_id)
    session = await runner.sessions.get(key())
    assert session.state == {"n": 1}
    assert session.user_state == {"total": 3}
    visible = [e.text for e in await runner.store.events(key()) if e.text]
    assert visible == ["one", "one n=1 run=1"]
    assert len(await runner.store.events(key(), hidden=True)) == 7
    assert (await ask(runner, "four")).text == "four n=2 run=4"


async def test_regenerate_answers_again(make_runner: MakeRunner) -> None:
    """A44."""
    runner = make_runner(counter())
    one = await ask(runner, "one")
    again = await (await runner.regenerate(key(), one.invocation_id)).result()
    assert again.text == "one n=1 run=2"


async def test_fork_copies_what_came_before(make_runner: MakeRunner) -> None:
    """A44."""
    artifacts = InMemoryArtifactStore()
    runner = make_runner(counter(), artifacts=artifacts)
    await ask(runner, "one")
    two = await ask(runner, "two")
    await artifacts.save(key(), "file.txt", b"1")
    await artifacts.save(key(), "file.txt", b"2")
    await runner.sessions.fork(key(), "copy", before_invocation=two.invocation_id)
    assert (await ask(runner, "other", "copy")).text == "other n=2 run=3"
    assert (await runner.sessions.get(key())).state == {"n": 2}
    assert [info.version for info in await artifacts.versions(key("copy"), "file.txt")] == [1, 2]
    with pytest.raises(SessionExists):
        await runner.sessions.fork(key(), "copy")


async def test_delete_takes_everything_of_the_session(make_runner: MakeRunner) -> None:
    """A28, A29, A44."""
    artifacts = InMemoryArtifactStore()
    runner = make_runner(counter(), artifacts=artifacts)
    await ask(runner, "one")
    await artifacts.save(key(), "mine", b"1")
    await artifacts.save(key(), "user:ours", b"1")
    await runner.sessions.delete(key())
    await runner.sessions.delete(key())
    assert await runner.store.open(key()) is None
    assert [info.name for info in await artifacts.list(key())] == ["user:ours"]
    assert (await ask(runner, "one")).text == "one n=1 run=2"
    await runner.sessions.delete_user("ada")
    assert await artifacts.list(key()) == ()
    blank = await runner.store.open(key(), blank=True)
    assert blank is not None
    assert blank.user_state == {}


async def test_what_does_not_exist_is_named(make_runner: MakeRunner) -> None:
    runner = make_runner(counter())
    with pytest.raises(SessionMissing):
        await runner.sessions.rewind(key(), "x")
    await ask(runner, "one")
    with pytest.raises(InvocationMissing):
        await runner.sessions.rewind(key(), "x")
    with pytest.raises(SessionMissing):
        await runner.select("x", user="ada", session="nope")


async def test_a_session_is_not_changed_in_the_middle_of_an_answer(make_runner: MakeRunner) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow() -> str:
        began.set()
        await go.wait()
        return "done"

    runner = make_runner(slow)
    invocation = await runner.start("x", user="ada", session="s")
    await began.wait()
    assert invocation.id is not None
    for change in (
        runner.sessions.delete(key()),
        runner.sessions.rewind(key(), invocation.id),
        runner.sessions.delete_user("ada"),
    ):
        with pytest.raises(SessionBusy):
            await change
    go.set()
    assert (await invocation.result()).text == "done"


async def test_select_has_no_effect(make_runner: MakeRunner) -> None:
    runner = make_runner(counter())
    selection = await runner.select("hello")
    assert selection.agent == "counter"
    assert await runner.store.open(key()) is None
