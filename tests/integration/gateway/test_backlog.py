"""More messages than a process can hold: they are refused at the door, whoever schedules the work."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, served
from restate_play import free_port
from runner_play import Gate

from turnwise import Runner
from turnwise.facts.errors import QueueFull
from turnwise.facts.limits import ProcessConfig
from turnwise.ports.dispatcher import MakesDispatcher

MakeRunner = Callable[..., Runner]
HELD = 3


async def send(client: Served, session: str, id_: str = "m-1") -> Any:
    body = {"content": "hello", "id": id_}
    return await client.post(f"/api/v1/sessions/{session}/messages?wait=false", json=body)


async def fill(client: Served) -> None:
    """Sends as many as may wait, also two for one session, then more."""
    for session, id_ in (("a", "m-1"), ("a", "m-2"), ("b", "m-1")):
        assert (await send(client, session, id_)).status_code == 202
    for session in ("a", "b", "new"):
        refused = await send(client, session, "m-9")
        assert (refused.status_code, refused.json()["code"]) == (429, "session.queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert "process.backlog" in refused.text
    assert (await client.get("/api/v1/sessions/new")).status_code == 404, "nothing of a refused message is stored"


async def test_the_process_that_answers(make_runner: MakeRunner) -> None:
    """E7: what waits is bounded in all sessions together, and there is room again when answers end."""
    gate = Gate()
    runner = make_runner(gate.agent, process=ProcessConfig(concurrency=1, backlog=HELD))
    async with served(runner) as client:
        assert (await send(client, "first")).status_code == 202
        await gate.began.wait()
        await fill(client)
        gate.go.set()
        await runner.idle()
        assert (await send(client, "new", "m-9")).status_code == 202
        await runner.idle()
        ends = [(await client.get(f"/api/v1/sessions/{session}")).json() for session in ("first", "a", "b", "new")]
        assert [(each["turns"], each["queued"]) for each in ends] == [(1, 0), (2, 0), (1, 0), (1, 0)]


async def test_one_user_leaves_room_for_others(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7: a user with many waiting messages gets no more than the room that is left."""
    monkeypatch.setattr("turnwise.runner.queue.queues.FAIR_SHARE_FROM", 2)
    gate = Gate()
    runner = make_runner(gate.agent, process=ProcessConfig(concurrency=1, backlog=6))

    async def waits(user: str, number: int) -> bool:
        try:
            await runner.start(f"m{number}", user=user, session=f"s{number}")
        except QueueFull:
            return False
        return True

    await runner.start("first", user="ann", session="first")
    await gate.began.wait()
    assert [await waits("ann", number) for number in range(5)] == [True, True, True, False, False]
    assert [await waits("ben", number) for number in range(3)] == [True, True, False]
    assert [await waits("eve", 0), await waits("ann", 9)] == [True, False]
    gate.go.set()
    await runner.idle()
    assert await waits("ann", 9)
    await runner.idle()


async def test_messages_of_one_user_that_arrive_at_once_leave_room_too(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages that are being stored count as its own."""
    monkeypatch.setattr("turnwise.runner.queue.queues.FAIR_SHARE_FROM", 2)
    gate = Gate()
    runner = make_runner(gate.agent, process=ProcessConfig(concurrency=1, backlog=6))
    await runner.start("first", user="ann", session="first")
    await gate.began.wait()
    sent = [runner.start(f"m{number}", user="ann", session=f"s{number}") for number in range(5)]
    found = await asyncio.gather(*sent, return_exceptions=True)
    assert sum(isinstance(each, QueueFull) for each in found) == 2, found
    await runner.start("of another", user="ben", session="b")
    gate.go.set()
    await runner.idle()


def nobody_there() -> MakesDispatcher:
    pytest.importorskip("httptools")
    from turnwise.dispatch.restate import RestateEngine

    return RestateEngine(f"restate://127.0.0.1:{free_port()}?admin={free_port()}", app="app").dispatcher


async def test_a_gateway_whose_engine_is_away(make_runner: MakeRunner) -> None:
    """It accepts what it can hold. Workers find that in the inbox; then there is room again."""
    gate = Gate()
    gate.go.set()
    gateway = make_runner(gate.agent, process=ProcessConfig(backlog=HELD), dispatcher=nobody_there())
    worker = make_runner(gate.agent)
    async with served(gateway) as client:
        await fill(client)
        assert (await gateway.store.inbox.lengths("app")).messages == HELD
        assert await worker.recover() == 2
        await gateway.idle()
        assert (await send(client, "new", "m-9")).status_code == 202
        await worker.recover()
