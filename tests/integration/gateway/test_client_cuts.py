"""The client reads on over connections that break off, and gateways that are being stopped (E7)."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from client_play import between
from gateway_play import served
from runner_play import Gate, soon
from serve_play import Process, project

from turnwise import AgentContext, Runner, agent
from turnwise.client import Answer, Client, Unreached
from turnwise.facts.errors import Closing
from turnwise.facts.events import Event
from turnwise.facts.gateway import CallerLimits, GatewayConfig

MakeRunner = Callable[..., Runner]
Serve = Callable[..., Process]
MANY = GatewayConfig(limits=CallerLimits(requests=100_000, runs=10_000))
HEAD_BYTES = 300
STEP = 61
"""A byte of so many is the last one of some connection. (Every byte of a stream: tests/unit/client/test_reading.py.)"""


class Pieces:
    """An agent that says something, and then its answer in pieces; between two of them it waits until `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

        @agent
        async def writing(context: AgentContext) -> None:
            await context.say("thinking")
            async with context.stream() as stream:
                for piece in ("a ", "b ", "c "):
                    await stream.write(piece)
                await self.go.wait()
                await stream.write("d")

        self.agent = writing


def checked(said: list[Event | Answer], text: str) -> None:
    """All stored events and the answer came once, in order, and no letter of what came in pieces came twice."""
    *events, answer = said
    assert isinstance(answer, Answer)
    assert answer.text == text
    stored = [each for each in events if isinstance(each, Event) and not each.partial]
    assert [each.sequence for each in stored] == list(range(1, len(stored) + 1))
    assert stored[-1].actions.end is not None
    shown: dict[str, int] = {}
    for each in events:
        if isinstance(each, Event) and each.partial:
            assert each.offset == shown.get(each.id, 0)
            shown[each.id] = shown.get(each.id, 0) + len(each.text)


async def test_wherever_a_connection_breaks_off_nothing_is_lost_and_nothing_comes_twice(make_runner: MakeRunner) -> None:
    writing = Pieces()
    writing.go.set()
    async with served(make_runner(writing.agent, policy="adk"), MANY) as gateway:
        sent = await gateway.send_message("hi", session="measured", headers={"Accept": "text/event-stream"})
        whole = len(sent.content) + HEAD_BYTES

        async def cut(after: int) -> int:
            async with between(gateway.address, after) as proxy, Client(proxy.address) as client:
                checked([said async for said in client.stream(f"s{after}", "hi")], "thinking\na b c d")
                log = [event async for event in client.sessions.events(f"s{after}")]
                assert [event.text for event in log if event.text] == ["hi", "thinking", "a b c d"]
            return proxy.made

        made = await asyncio.gather(*map(cut, range(0, whole, STEP)))
    assert max(made) > 1


async def test_pieces_that_are_still_being_said_go_on_where_they_were(make_runner: MakeRunner) -> None:
    writing = Pieces()
    async with (
        served(make_runner(writing.agent)) as gateway,
        between(gateway.address) as proxy,
        Client(proxy.address) as client,
    ):
        said = []
        async for each in client.stream("s", "hi"):
            said.append(each)
            if isinstance(each, Event) and each.partial:
                await proxy.break_off()
                if each.text == "c ":
                    writing.go.set()
        checked(said, "thinking\na b c d")
        pieces = [each.text for each in said if isinstance(each, Event) and each.partial]
        assert "".join(pieces).startswith("a b c ")
        assert proxy.made == 4


@pytest.mark.parametrize("cut", [0, 1, 300])
async def test_an_answer_whose_connection_broke_off_is_given_once(make_runner: MakeRunner, cut: int) -> None:
    answered = []

    @agent
    async def counting(message: str) -> str:
        answered.append(message)
        return "counted"

    async with (
        served(make_runner(counting)) as gateway,
        between(gateway.address, cut, cut) as proxy,
        Client(proxy.address) as client,
    ):
        assert (await client.send("s", "hi")).text == "counted"
        assert proxy.made == 3
    assert answered == ["hi"]


async def test_without_patience_a_cut_is_raised_and_can_be_read_on_later(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with (
        served(make_runner(gate.agent)) as gateway,
        between(gateway.address) as proxy,
        Client(proxy.address, patience=0) as client,
    ):
        reading = client.stream("s", "hi", id="m1")
        first = await soon(anext(reading))
        assert isinstance(first, Event)
        await proxy.break_off()
        with pytest.raises(Unreached):
            await soon(anext(reading))
        gate.go.set()
        rest = [each async for each in client.attach("s", message_id="m1", after=first.sequence or 0)]
        checked([first, *rest], "answer to hi")


async def test_a_gateway_that_is_being_stopped_is_followed_by_another(make_runner: MakeRunner) -> None:
    """E7: the first process still gives the answer; the other one follows it through the store."""
    writing = Pieces()
    async with (
        served(make_runner(writing.agent)) as one,
        served(make_runner(writing.agent)) as other,
        between(one.address) as proxy,
        Client(proxy.address) as client,
    ):
        said = []
        async for each in client.stream("s", "hi", id="m1"):
            said.append(each)
            if isinstance(each, Event) and each.text == "thinking":
                proxy.upstream = other.address
                one.front.closing.set()
                writing.go.set()
        checked(said, "thinking\na b c d")
        assert await client.find("s", message_id="m1") == said[-1]
        with pytest.raises(Closing):
            await Client(one.address, patience=0).send("s", "more")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
async def test_a_process_that_is_gone_is_followed_by_another(tmp_path: Path, serve: Serve, how: signal.Signals) -> None:
    """What it left is answered by another on the same file; the reader gets the rest, and the answer, from there."""
    folder = project(tmp_path, "store: 'sqlite:///s.db'\ngateway: {grace_seconds: 0}\n")
    (folder / "hold").touch()
    first, second = await asyncio.to_thread(serve, folder), await asyncio.to_thread(serve, folder)
    async with between(first.address) as proxy, Client(proxy.address) as client:
        said = []
        waiting = asyncio.create_task(client.send("s", "slow", id="m1"))
        async for each in client.stream("s", "slow", id="m1"):
            said.append(each)
            if isinstance(each, Event) and each.text == "two" and proxy.upstream == first.address:
                proxy.upstream = second.address
                first.told_to_stop(how)
                await asyncio.to_thread(first.ended)
                (folder / "hold").unlink()
        checked(said, "one\ntwo\nthree")
        assert await soon(waiting) == said[-1]
