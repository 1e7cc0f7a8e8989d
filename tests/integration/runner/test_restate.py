"""Runners on a real Restate server: gateways accept, workers answer, the engine only schedules."""

import asyncio
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from restate_play import RestateServer, free_port, restate_server, skip_without_restate

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.errors import EngineError, SessionBusy
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey

pytest.importorskip("restate")

from turnwise.dispatch.restate import Endpoint, RestateEngine, WorkerAddress
from turnwise.dispatch.restate_client import RestateClient

SECRET = "sesame-4711"
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestateServer]:
    skip_without_restate()
    with restate_server(tmp_path_factory.mktemp("restate")) as server:
        yield server


class Place:
    """An app's processes, which share a database and an engine."""

    def __init__(self, server: RestateServer, folder: Path, app: str) -> None:
        self.server, self.app, self._url = server, app, f"sqlite:///{folder}/sessions.db"
        self.process = ProcessConfig(lease_seconds=1.0, recovery_seconds=0.2)

    def gateway(self, root: Any, **options: Any) -> Runner:
        """A process that only accepts."""
        return self._runner(root, None, **options)

    @asynccontextmanager
    async def worker(self, root: Any, **options: Any) -> AsyncIterator[Runner]:
        """A process that the engine calls."""
        address = WorkerAddress(port=free_port(), keys=(self.server.public_key,))
        runner = self._runner(root, address, **options)
        working = asyncio.create_task(runner.work())
        try:
            await self.server.knows(f"http://127.0.0.1:{address.port}", working)
            yield runner
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            await runner.close()

    def _runner(self, root: Any, worker: WorkerAddress | None, **options: Any) -> Runner:
        engine = RestateEngine(self.server.address, app=self.app, worker=worker)
        process = options.pop("process", self.process)
        return Runner(root, store=self._url, app=self.app, process=process, dispatcher=engine.dispatcher, **options)


@pytest.fixture
def place(server: RestateServer, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(server, tmp_path, f"app-{abs(hash(request.node.name)) % 10**8}")


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def desk_that(notes: list[str], seconds: float = 0.0) -> Any:
    """An agent that notes each message that it answers."""

    @agent
    async def desk(message: str) -> str:
        notes.append(message)
        await asyncio.sleep(seconds)
        return f"You said {message}"

    return desk


async def test_a_worker_answers_what_a_gateway_accepts(place: Place) -> None:
    here: list[str] = []
    there: list[str] = []
    gateway = place.gateway(desk_that(here))
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(desk_that(there)):
        first = [await gateway.start(f"m{n}", user="ä/b c", session="s 1/2") for n in range(5)]
        other = await gateway.start("x", user="ann", session="s-2", config=RunConfig(when_busy="reject"))
        assert [(await each.result()).text for each in first] == [f"You said m{n}" for n in range(5)]
        assert (await other.result()).text == "You said x"
        again = await gateway.attach(user="ann", session="s-2", invocation_id=other.id)
        assert (await again.result()).text == "You said x"
    await gateway.close()
    assert here == []
    assert [message for message in there if message != "x"] == [f"m{n}" for n in range(5)]


async def test_a_busy_session_can_refuse_and_be_interrupted(place: Place) -> None:
    notes: list[str] = []
    gateway = place.gateway(desk_that([]))
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(desk_that(notes, seconds=30.0)):
        slow = await gateway.start("slow", user="ann", session="s")
        await until(lambda: bool(notes))
        with pytest.raises(SessionBusy):
            await gateway.start("no", user="ann", session="s", config=RunConfig(when_busy="reject"))
        last = await gateway.start("last", user="ann", session="s", config=RunConfig(when_busy="interrupt"))
        end = (await slow.result()).end
        assert end is not None
        assert end.reason == "cancelled"
        await last.cancel()
        end = (await last.result()).end
        assert end is not None
        assert end.reason == "cancelled"
    await gateway.close()


async def test_messages_wait_for_a_worker(place: Place) -> None:
    """Nothing serves the app yet, so the engine refuses the wake-up; the worker finds the message when it comes."""
    gateway = place.gateway(desk_that([]))
    waiting = await gateway.start("early", user="ann", session="s")
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(desk_that([])):
        assert (await waiting.result()).text == "You said early"
    await gateway.close()


async def test_a_worker_starts_before_the_engine(tmp_path: Path) -> None:
    with restate_server(_folder(tmp_path)) as server:
        server.kill()
        place = Place(server, tmp_path, "early")
        gateway = place.gateway(desk_that([]))
        starting = asyncio.create_task(asyncio.to_thread(server.start))
        async with asyncio.timeout(PATIENCE_SECONDS), place.worker(desk_that([])):
            await starting
            answered = await gateway.start("hello", user="ann", session="s")
            assert (await answered.result()).text == "You said hello"
        await gateway.close()


async def test_the_engine_learns_no_words_and_no_secrets(place: Place) -> None:
    @agent
    async def failing(message: str, context: AgentContext) -> str:
        await context.say(f"{SECRET} said")
        raise RuntimeError(f"{SECRET} raised")

    gateway = place.gateway(failing)
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(failing):
        invocation = await gateway.start(f"{SECRET} asked", user="ann", session="visible-in-the-engine")
        assert (await invocation.result()).text == f"{SECRET} said"
        stored = b"".join(path.read_bytes() for path in place.server.storage.rglob("*") if path.is_file())
        assert b"visible-in-the-engine" in stored, "the search finds what is there"
        assert SECRET.encode() not in stored
    await gateway.close()


async def test_two_apps_and_two_versions_side_by_side(server: RestateServer, tmp_path: Path) -> None:
    old: list[str] = []
    new: list[str] = []
    one, two = Place(server, tmp_path, "shop é"), Place(server, tmp_path, "shop-è")
    async with asyncio.timeout(PATIENCE_SECONDS), one.worker(desk_that(old, seconds=1.0)), two.worker(desk_that([])):
        gateways = [place.gateway(desk_that([])) for place in (one, two)]
        first = await gateways[0].start("first", user="ann", session="s")
        await until(lambda: bool(old))
        async with one.worker(desk_that(new)):
            answers = [
                await (await gateways[0].start("second", user="ann", session="s-2")).result(),
                await (await gateways[1].start("third", user="ann", session="s-2")).result(),
                await first.result(),
            ]
        for gateway in gateways:
            await gateway.close()
    assert [answer.text for answer in answers] == ["You said second", "You said third", "You said first"]
    assert (old, new) == (["first"], ["second"]), "what has begun ends where it began"
    names = json.loads(server.read("services"))["services"]
    assert len({each["name"] for each in names if "shop" in each["name"]}) == 2


async def test_a_wait_ends_when_it_expires(place: Place) -> None:
    @agent
    async def asking(context: AgentContext) -> str:
        return (await context.ask("Which?")).text

    config = RunConfig(limits=Limits(wait_seconds=0.5))
    gateway = place.gateway(asking, config=config)
    key = SessionKey(place.app, "ann", "s")
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(asking, config=config):
        invocation = await gateway.start("hello", user="ann", session="s")
        assert (await invocation.result()).end is None
        while (await gateway.sessions.get(key)).head.invocations:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    events = await gateway.sessions.events(key)
    await gateway.close()
    assert [event.actions.end.reason for event in events if event.actions.end] == ["limit:wait_seconds"]


async def test_the_engine_dies_and_forgets_everything(place: Place, tmp_path: Path) -> None:
    notes: list[str] = []
    gateway = place.gateway(desk_that([]))
    with restate_server(_folder(tmp_path)) as server:
        place.server = server
        gateway = place.gateway(desk_that([]))
        async with asyncio.timeout(2 * PATIENCE_SECONDS), place.worker(desk_that(notes)):
            assert (await (await gateway.start("one", user="ann", session="s")).result()).text == "You said one"
            server.kill()
            without = await gateway.start("two", user="ann", session="s")
            assert (await without.result()).text == "You said two", "workers look for work themselves"
            shutil.rmtree(server.storage)
            await asyncio.to_thread(server.start)
            while "deployment_id" not in await asyncio.to_thread(server.read, "services"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            assert (await (await gateway.start("three", user="ann", session="s")).result()).text == "You said three"
        await gateway.close()
    assert notes == ["one", "two", "three"]


def _folder(path: Path) -> Path:
    folder = path / "other"
    folder.mkdir()
    return folder


async def test_a_call_without_the_engines_signature_is_refused(server: RestateServer) -> None:
    worked: list[SessionKey] = []

    async def work_off(key: SessionKey, number: int) -> None:
        worked.append(key)

    address = WorkerAddress(port=free_port(), keys=(server.public_key,))
    endpoint = Endpoint("turnwise.app", "app", address, work_off)
    await endpoint.start()
    try:
        for path in ("discover", "invoke/turnwise.app/workOff"):
            request = urllib.request.Request(f"{endpoint.url}/{path}", data=b"1" if "invoke" in path else None)
            with pytest.raises(urllib.error.HTTPError) as refused:
                await asyncio.to_thread(urllib.request.urlopen, request, timeout=5)
            assert refused.value.code == 401
            refused.value.close()
    finally:
        await endpoint.end()
    assert worked == []


async def test_a_worker_that_does_not_trust_the_engine_is_not_registered(server: RestateServer) -> None:
    async def work_off(key: SessionKey, number: int) -> None:
        raise AssertionError(key)

    # A valid key, of another engine.
    address = WorkerAddress(port=free_port(), keys=("publickeyv1_AKHx4nHKL3xMx8h5PsYfZ2Lycap8VeAipM3W2nyEg9EM",))
    endpoint, client = Endpoint("turnwise.app", "app", address, work_off), RestateClient.at(server.address)
    await endpoint.start()
    try:
        with pytest.raises(EngineError, match="refuses /deployments"):
            await client.register(endpoint.url)
    finally:
        await client.close()
        await endpoint.end()


@pytest.mark.parametrize(
    ("version", "says"),
    [({"version": "1.2.0"}, "1.5 or later"), ({"version": "2.0.0"}, "below 2"), ({"some": "page"}, "no Restate server")],
)
async def test_another_version_is_an_error_at_start(version: dict[str, str], says: str) -> None:
    body = json.dumps(version).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(EngineError, match=says):
            await RestateEngine(f"restate://127.0.0.1:{port}?admin={port}", app="app").check()


async def test_nobody_at_the_address_is_an_error_at_start(server: RestateServer) -> None:
    with pytest.raises(EngineError, match="cannot be reached"):
        await RestateEngine(f"restate://127.0.0.1:{free_port()}?admin={free_port()}", app="app").check()
    assert (await RestateEngine(server.address, app="app").check()).startswith("1.")


async def test_the_engine_tries_again_within_a_second(server: RestateServer) -> None:
    """What a worker that died was doing is soon done by another one, however often that one refuses for want of room."""

    async def work_off(key: SessionKey, number: int) -> None:
        raise AssertionError(key)

    address = WorkerAddress(port=free_port(), keys=(server.public_key,))
    endpoint, client = Endpoint("turnwise.retries", "retries", address, work_off), RestateClient.at(server.address)
    await endpoint.start()
    try:
        await client.register(endpoint.url)
        policy = json.loads(await asyncio.to_thread(server.read, "services/turnwise.retries"))["retry_policy"]
    finally:
        await client.close()
        await endpoint.end()
    assert (policy["initial_interval"], policy["max_interval"], policy["on_max_attempts"]) == ("100ms", "1s", "Kill")


async def test_an_invocation_is_continued_by_a_worker_that_has_its_agent(place: Place) -> None:
    """Also if the engine calls the newest worker, whose version has it no more."""
    there: list[str] = []

    @agent
    async def asking(context: AgentContext) -> str:
        return (await context.ask("Which?")).text

    gateway = place.gateway(asking)
    async with asyncio.timeout(PATIENCE_SECONDS), place.worker(asking):
        first = await gateway.start("hello", user="ann", session="s")
        assert (await first.result()).end is None
        async with place.worker(desk_that(there)):
            other = await gateway.start("new", user="bob", session="s")
            assert (await other.result()).text == "You said new"
            answered = await gateway.start("this one", user="ann", session="s")
            assert (await answered.result()).text == "this one"
    await gateway.close()
    assert there == ["new"]
