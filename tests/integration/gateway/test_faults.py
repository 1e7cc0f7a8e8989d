"""What goes wrong around a gateway: clients that leave, processes that are killed, a database that goes away, readers that do
not read, and senders who do not stop. What was accepted is answered once, and nobody else is the worse for it.
"""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
from gateway_play import DEADLINE_SECONDS, Served, events_in, served
from runner_play import Gate, soon
from serve_play import STREAM, Process, project
from websockets.asyncio.client import connect

from turnwise import AgentContext, ProcessConfig, Runner, SqlSessionStore, agent
from turnwise.facts.content import text_content
from turnwise.facts.gateway import CallerLimits, GatewayConfig
from turnwise.facts.messages import Message
from turnwise.gateway.server import Connection
from turnwise.testing.postgres import PostgresServer, new_postgres_database, postgres_url

MakeRunner = Callable[..., Runner]
Serve = Callable[..., Process]
Seen = list[tuple[str, str, str]]
MANY = 10
MEGABYTE = 1024 * 1024
ENOUGH = CallerLimits(requests=10**6, runs=10**4, bytes=10**12)
HI = [{"role": "user", "content": "hi"}]
IN_S = {"X-Session-ID": "s"}

WAYS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "message": ("/api/v1/sessions/s/messages", {"content": "hi"}, {}),
    "stream": ("/api/v1/sessions/s/messages", {"content": "hi"}, STREAM),
    "chat": ("/v1/chat/completions", {"model": "turnwise", "messages": HI}, IN_S),
    "chat, streamed": ("/v1/chat/completions", {"model": "turnwise", "messages": HI, "stream": True}, IN_S),
    "response": ("/v1/responses", {"input": "hi", "conversation": "s"}, {}),
    "response, streamed": ("/v1/responses", {"input": "hi", "conversation": "s", "stream": True}, {}),
    "graph": ("/api/v1/graph-chat/chat", {"message": "hi", "session_id": "s"}, {}),
}


async def hold(client: Served, way: str) -> None:
    """Asks, and waits for the answer."""
    if way == "socket":
        async with connect(client.address.replace("http", "ws") + "/v1/responses") as connection:
            await connection.send(json.dumps({"type": "response.create", "input": "hi", "conversation": "s"}))
            await connection.wait_closed()
        return
    path, body, headers = WAYS[way]
    await client.post(path, json=body, headers=headers)


@pytest.mark.parametrize("way", [*WAYS, "socket"])
async def test_what_a_client_left_is_answered_all_the_same(make_runner: MakeRunner, way: str) -> None:
    """A22."""
    gate = Gate()
    runner = make_runner(gate.agent)
    await runner.sessions.create(runner.key("local", "s"))
    async with served(runner) as client:
        asking = asyncio.create_task(hold(client, way))
        await soon(gate.began.wait())
        asking.cancel()
        await asyncio.wait({asking})
        gate.go.set()
        await soon(runner.idle())
        log = (await client.get("/api/v1/sessions/s/events")).json()["events"]
        said = [part["text"] for event in log for part in (event["content"] or {"parts": []})["parts"]]
        assert (said, log[-1]["actions"]["end"]["reason"]) == (["hi", "answer to hi"], "completed")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """What names a database that several processes can use, in a configuration."""
    return "sqlite:///s.db" if request.param == "sqlite" else new_postgres_database()


class Reader:
    """Reads the answer of one session; `in_the_middle` is set when it has half of it."""

    def __init__(self, number: int) -> None:
        self.path = f"/api/v1/sessions/s{number}/messages"
        self.seen: Seen = []
        self.in_the_middle = asyncio.Event()

    @property
    def last(self) -> dict[str, str]:
        ids = [id_ for event, id_, _ in self.seen if event == "event"]
        return {"Last-Event-ID": ids[-1]} if ids else {}

    async def begin(self, client: httpx.AsyncClient) -> None:
        """Asks, and reads until the connection breaks off."""
        try:
            async with client.stream("POST", self.path, json={"content": "slow", "id": "m"}, headers=STREAM) as answer:
                await self._read(answer)
        except httpx.TransportError:
            pass

    async def go_on(self, client: httpx.AsyncClient) -> None:
        """Reads on behind what it has, up to the answer."""
        async with client.stream("GET", f"{self.path}/m", headers={**STREAM, **self.last}) as answer:
            await self._read(answer)

    async def _read(self, answer: httpx.Response) -> None:
        text = ""
        async for line in answer.aiter_lines():
            text += line + "\n"
            if not line:
                self.seen += events_in(text)
                text = ""
                if '"two"' in self.seen[-1][2]:
                    self.in_the_middle.set()


async def test_who_read_from_a_process_that_was_killed_reads_on_at_another(tmp_path: Path, serve: Serve, store: str) -> None:
    """E7: each message is answered once, and each reader gets each event once."""
    folder = project(tmp_path, f"store: '{store}'\n")
    (folder / "hold").touch()
    first, second = await asyncio.gather(*(asyncio.to_thread(serve, folder) for _ in range(2)))
    readers = [Reader(number) for number in range(MANY)]
    async with client_of(first) as client:
        reading = asyncio.gather(*(reader.begin(client) for reader in readers))
        await soon(asyncio.gather(*(reader.in_the_middle.wait() for reader in readers)))
        first.process.kill()
        await soon(reading)
    (folder / "hold").unlink()
    async with client_of(second) as client:
        await soon(asyncio.gather(*(reader.go_on(client) for reader in readers)))
        for reader in readers:
            await check_answered_once(client, reader)


async def check_answered_once(client: httpx.AsyncClient, reader: Reader) -> None:
    answer = json.loads(reader.seen[-1][2])
    assert (reader.seen[-1][0], answer["text"], answer["end"]["reason"]) == ("answer", "one\ntwo\nthree", "completed")
    log = (await client.get(reader.path.replace("messages", "events"), params={"hidden": True})).json()["events"]
    numbers = [int(id_) for event, id_, _ in reader.seen if event == "event"]
    assert [event["sequence"] for event in log] == numbers == list(range(1, len(log) + 1))
    assert len([event for event in log if event["author"] == "user"]) == 1
    assert [event["actions"]["end"]["reason"] for event in log if event["actions"]["end"]] == ["completed"]
    assert (await client.post(reader.path, json={"content": "slow", "id": "m"})).json() == answer


def client_of(process: Process) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=process.address, timeout=DEADLINE_SECONDS, trust_env=False)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@agent
async def counting(message: str, context: AgentContext) -> str:
    context.state["n"] = context.state.get("n", 0) + 1
    return f"{message} is number {context.state['n']}"


class Sender:
    """Sends messages of one session, each until it is answered. away: set when one could not be taken."""

    def __init__(self, session: str, away: asyncio.Event) -> None:
        self.session, self.away, self.half = session, away, asyncio.Event()
        self.answers: list[str] = []

    async def send(self, client: Served) -> None:
        while len(self.answers) < MANY:
            id_ = f"m{len(self.answers)}"
            answer = await client.send_message(id_, self.session, id=id_)
            if answer.status_code == 200:
                self.answers.append(answer.json()["text"])
            else:
                assert (answer.status_code, answer.json()["code"]) == (503, "store.unavailable")
                assert int(answer.headers["retry-after"]) >= 1
                self.away.set()
                await asyncio.sleep(0.1)  # sooner than it is told
            if len(self.answers) == MANY // 2:
                self.half.set()


async def test_a_database_that_goes_away_and_comes_back(server: PostgresServer) -> None:
    """Meanwhile one waits, or is told when to come again; then everything is there, once."""
    store = SqlSessionStore(server.new_database(), patience=0.5)
    runner = Runner(counting, store=store, process=ProcessConfig(lease_seconds=1, recovery_seconds=0.1))
    away = asyncio.Event()
    senders = [Sender(f"s{number}", away) for number in range(5)]
    async with served(runner, GatewayConfig(limits=ENOUGH)) as client:
        sending = asyncio.gather(*(sender.send(client) for sender in senders))
        await soon(senders[0].half.wait())
        await asyncio.to_thread(server.kill)
        await soon(away.wait())
        ready = await client.get("/api/v1/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "request.not_ready")
        assert (await client.get("/api/v1/health")).status_code == 200
        await asyncio.to_thread(server.start)
        await soon(sending)
        for sender in senders:
            assert sender.answers == [f"m{number} is number {number + 1}" for number in range(MANY)]
            log = await runner.store.events(runner.key("local", sender.session))
            assert [event.text for event in log if event.author == "user"] == [f"m{number}" for number in range(MANY)]
        assert (await client.get("/api/v1/ready")).status_code == 200
    await runner.close()


OUT_OF_ORDER = {
    "login refused": ("ALLOW_CONNECTIONS false", "ALLOW_CONNECTIONS true"),
    "read-only": ("SET default_transaction_read_only = on", "SET default_transaction_read_only = off"),
}


def alter(url: str, change: str) -> None:
    """Changes the database, and ends all connections to it, so that the change counts for everybody."""
    name = re.search(r"/(\w+)\?", url)
    assert name is not None
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name[1]} {change}")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name[1]])


@pytest.mark.parametrize("trouble", OUT_OF_ORDER)
async def test_recovery_outlives_a_database_that_takes_nothing(trouble: str) -> None:
    """Such errors do not say that they may pass, and do: readiness says what messages meet, and recovery goes on."""
    url = new_postgres_database()
    store = SqlSessionStore(url, patience=2)
    runner = Runner(counting, store=store, process=ProcessConfig(lease_seconds=1, recovery_seconds=0.05))
    async with served(runner, GatewayConfig(limits=ENOUGH)) as client:
        working = asyncio.create_task(runner.work())
        assert (await client.send_message("one")).status_code == 200
        await asyncio.to_thread(alter, url, OUT_OF_ORDER[trouble][0])
        assert (await client.send_message("two", id="two")).status_code in {500, 503}
        ready = await client.get("/api/v1/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "request.not_ready")
        await asyncio.sleep(0.3)  # some rounds of recovery
        assert not working.done()
        await asyncio.to_thread(alter, url, OUT_OF_ORDER[trouble][1])
        await store.inbox.accept(
            runner.key("local", "left"), Message(id="m", content=text_content("hi", role="user")), create=True, limit=9
        )
        left = await runner.attach(user="local", session="left", message_id="m")
        assert (await soon(left.result())).text == "hi is number 1"
        assert (await client.get("/api/v1/ready")).status_code == 200
        assert (await client.send_message("two", id="two")).json()["text"] == "two is number 2"
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await runner.close()


@agent
async def long_winded(context: AgentContext) -> str:
    for number in range(100):
        await context.say(f"{number} " + "x" * (MEGABYTE // 5))
    return "end"


@asynccontextmanager
async def not_reading(client: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a long answer is asked for, and its beginning alone is read."""
    url, body = httpx.URL(client.address), b'{"content": "go on", "id": "m"}'
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, (url.host, url.port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
    head = "POST /api/v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert b" 200 " in await soon(reader.readline())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_a_reader_who_takes_nothing_holds_nobody_up(make_runner: MakeRunner) -> None:
    """A22."""
    runner = make_runner(long_winded)
    async with served(runner) as client, not_reading(client) as (reader, _):
        await soon(runner.idle())
        log = (await client.get("/api/v1/sessions/s/events", params={"last": 1})).json()["events"]
        assert log[0]["content"]["parts"][0]["text"] == "end"
        text = (await soon(reader.read())).decode()
        assert (text.count("event: event"), text.count("event: answer")) == (102, 1)


class Impatient(Connection):
    stalled_seconds = 0.05


async def test_a_reader_who_takes_nothing_for_long_is_cut_off(make_runner: MakeRunner) -> None:
    async with served(make_runner(long_winded), connection=Impatient) as client, not_reading(client) as (reader, writer):
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not writer.is_closing():  # a program that does not read hears of it when it writes
                writer.write(b" ")
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionError):
            await reader.read()
        rest = await client.get("/api/v1/sessions/s/messages/m", headers={**STREAM, "Last-Event-ID": "3"})
        assert [id_ for event, id_, _ in events_in(rest.text) if event == "event"] == [str(n) for n in range(4, 103)]


async def sent_without_end(address: str, head: str) -> tuple[bytes, int]:
    """The first line of the answer to a body that goes on and on, and how many megabytes were sent until then."""
    url, sent = httpx.URL(address), 0
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"{head}\r\nHost: localhost\r\n\r\n".encode())
    piece = b"%x\r\n%s\r\n" % (MEGABYTE, b"x" * MEGABYTE)
    answer = asyncio.create_task(reader.readline())
    while not answer.done():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
        sent += 1
    writer.transport.abort()
    return await answer, sent


async def test_senders_who_do_not_stop_cost_nothing(tmp_path: Path, serve: Serve) -> None:
    """An upload of a gigabyte, bodies without an end, and a thousand connections that say nothing."""
    folder = project(tmp_path, "artifacts: files\n")
    process = await asyncio.to_thread(serve, folder)
    memory = psutil.Process(process.process.pid).memory_info
    async with client_of(process) as client:
        assert (await client.post("/api/v1/sessions", json={"id": "s"})).status_code == 201
        # What the first message loads is not the senders' cost.
        assert (await client.post("/api/v1/sessions/s/messages", json={"content": "hello"})).status_code == 200
        before = memory().rss
        upload, kind = "PUT /api/v1/sessions/s/artifacts/a HTTP/1.1", "Content-Type: application/octet-stream"
        for line in (
            f"{upload}\r\n{kind}\r\nContent-Length: {1024 * MEGABYTE}",
            f"{upload}\r\n{kind}\r\nTransfer-Encoding: chunked",
            "POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked",
        ):
            answer, sent = await soon(sent_without_end(process.address, line))
            assert (answer.split(b" ")[1], sent < 1024) == (b"413", True)
        url = httpx.URL(process.address)
        idle = await asyncio.gather(*(asyncio.open_connection(url.host, url.port) for _ in range(1000)))
        assert (await client.post("/api/v1/sessions/s/messages", json={"content": "hi"})).json()["text"] == "You said hi"
        assert memory().rss - before < 150 * MEGABYTE
        for _, writer in idle:
            writer.transport.abort()
    assert process.process.poll() is None


async def test_an_old_client(make_runner: MakeRunner) -> None:
    async with served(make_runner(counting)) as client:
        url = httpx.URL(client.address)
        for more, closed in (("", True), ("Connection: keep-alive\r\n", False)):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(f"GET /api/v1/health HTTP/1.0\r\nHost: localhost\r\n{more}\r\n".encode())
            assert b" 200 " in await soon(reader.readline())
            assert b'{"status":"alive"}' in await soon(reader.readuntil(b"}"))
            if closed:
                assert await soon(reader.read()) == b""
            writer.close()
