"""One user abuses the gateway in ten ways at once, within the default limits, while twenty other users chat.

The twenty chat alone first. The server, the abusers and the chatters are three processes. Reported: the others' times in both
phases, their failures, the answers that the abusers got, and the server's memory and disk at the end.
"""

import asyncio
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from turnwise import Runner, agent
from turnwise.access.api_keys import new_key
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.gateway.server import front_for, serving
from turnwise.stores import OnDiskArtifactStore, SqlSessionStore

CHATTERS, SECONDS, PAUSE = 20, 10.0, 0.2
MOST_FACTOR = 5.0
Abuse = Callable[[httpx.AsyncClient, int], Awaitable[httpx.Response]]


@agent
async def desk() -> str:
    """Answers at once."""
    return "Yes."


def send(text: str, **more: Any) -> Abuse:
    async def work(client: httpx.AsyncClient, _: int) -> httpx.Response:
        return await client.post("/sessions/big/messages", json={"content": text, **more})

    return work


def post(path: str) -> Abuse:
    """Returns an operation on the newest answer of session `big`."""

    async def work(client: httpx.AsyncClient, _: int) -> httpx.Response:
        last = (await client.get("/sessions/big/events", params={"last": 1})).json().get("events", [])
        id_ = last[0]["invocation_id"] if last else "none"
        return await client.post(path.format(id=id_), json={"invocation_id": id_} if path.endswith("rewind") else {})

    return work


async def delete(client: httpx.AsyncClient, turn: int) -> httpx.Response:
    await client.post("/sessions", json={"id": f"gone-{turn}"})
    return await client.delete(f"/sessions/gone-{turn}")


async def export(client: httpx.AsyncClient, _: int) -> httpx.Response:
    return await client.get("/sessions/big/events", params={"limit": 200, "hidden": True, "blobs": True})


async def state(client: httpx.AsyncClient, turn: int) -> httpx.Response:
    return await client.post(
        f"/sessions/s{turn}/messages", json={"content": "x", "context": {"state": {f"user:{turn}": "x" * 60_000}}}
    )


async def unread(client: httpx.AsyncClient, _: int) -> httpx.Response:
    """Begins a stream and does not read it."""
    request = client.build_request("POST", "/sessions/big/messages", json={"content": "x" * 200_000})
    request.headers["Accept"] = "text/event-stream"
    return await client.send(request, stream=True)


ABUSES: tuple[Abuse, ...] = (
    post("/sessions/big/fork"),
    post("/sessions/big/rewind"),
    post("/sessions/big/invocations/{id}/regenerate"),
    delete,
    export,
    export,
    unread,
    unread,
    state,
    send("x" * 250_000),
)


def client_of(address: str, key: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {key}"}
    # Without certificates, whose loading holds the loop for longer than a message takes.
    return httpx.AsyncClient(
        base_url=f"{address}/api/v1", headers=headers, timeout=60, limits=limits, verify=False, trust_env=False
    )


async def _serve(folder: Path, ready: Any, stop: Any) -> None:
    store = SqlSessionStore(f"sqlite:///{folder / 'sessions.db'}")
    runner = Runner(desk, store=store, artifacts=OnDiskArtifactStore(folder / "files"))
    keys = []
    for number in range(CHATTERS + 1):
        text, key = new_key(f"key {number}", datetime.now(UTC), user=f"user-{number}")
        await store.keys.add(runner.app, key)
        keys.append(text)
    async with serving(front_for(runner, GatewayConfig(auth=AuthConfig()))) as served:
        ready.put((served.address, keys))
        await asyncio.to_thread(stop.wait)
    await runner.close()


def serve(folder: Path, ready: Any, stop: Any) -> None:
    asyncio.run(_serve(folder, ready, stop))


async def _abuse(address: str, key: str, results: Any, seconds: float) -> None:
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds
    async with client_of(address, key) as client:

        async def repeat(work: Abuse) -> None:
            for turn in count():
                if time.monotonic() > end:
                    return
                with suppress(httpx.HTTPError):
                    response = await work(client, turn)
                    statuses[response.status_code] += 1
                    # An abuser does not wait as long as Retry-After says.
                    await asyncio.sleep(0.05 if response.status_code == 429 else 0)

        await asyncio.gather(*map(repeat, ABUSES))
        results.put(dict(statuses))


def abuse(address: str, key: str, results: Any, seconds: float) -> None:
    asyncio.run(_abuse(address, key, results, seconds))


async def chat(address: str, keys: list[str], seconds: float) -> tuple[list[float], int]:
    """Returns the times of the chatters' messages, and how many failed. Their first messages, which connect, do not count."""
    times: list[float] = []
    failed, end = 0, 0.0

    async def send(client: httpx.AsyncClient) -> float:
        nonlocal failed
        began = time.perf_counter()
        response = await client.post("/sessions/s/messages", json={"content": "hi"})
        failed += response.status_code != 200
        return time.perf_counter() - began

    async def one(client: httpx.AsyncClient) -> None:
        while time.monotonic() < end:
            times.append(await send(client))
            await asyncio.sleep(PAUSE)

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(address, key)) for key in keys]
        await asyncio.gather(*map(send, clients))
        end = time.monotonic() + seconds
        await asyncio.gather(*map(one, clients))
    return times, failed


def percentile(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1]


def memory_bytes(pid: int) -> int:
    """Returns the resident memory of a process; Linux only."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def abused(folder: Path, seconds: float = SECONDS) -> bool:
    """Runs the benchmark and prints its figures. Returns whether the bounds hold."""
    spawn = multiprocessing.get_context("spawn")
    ready, results, stop = spawn.Queue(), spawn.Queue(), spawn.Event()
    server = spawn.Process(target=serve, args=(folder, ready, stop))
    server.start()
    try:
        address, keys = ready.get(timeout=60)
        alone, failed_alone = asyncio.run(chat(address, keys[1:], seconds))
        before = memory_bytes(server.pid or 0)
        abuser = spawn.Process(target=abuse, args=(address, keys[0], results, seconds + 6))
        abuser.start()
        time.sleep(2)
        beside, failed_beside = asyncio.run(chat(address, keys[1:], seconds))
        after, statuses = memory_bytes(server.pid or 0), results.get(timeout=120)
        abuser.join()
    finally:
        stop.set()
        server.join(30)
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    factor = percentile(beside, 99) / percentile(alone, 99)
    for name, times in (("alone", alone), ("beside ten abusers", beside)):
        half, most = percentile(times, 50) * 1000, percentile(times, 99) * 1000
        print(f"{name}: {len(times)} messages, p50 {half:.1f} ms, p99 {most:.1f} ms")
    print(f"factor of p99: {factor:.1f} (bound {MOST_FACTOR:g}); failed: {failed_alone} alone, {failed_beside} beside")
    print(f"memory: {before >> 20} MiB, then {after >> 20} MiB; disk: {disk >> 20} MiB; abusers' answers: {statuses}")
    return factor <= MOST_FACTOR and not failed_alone and not failed_beside
