"""Limits of users and processes over HTTP: the code, the status and Retry-After of each, and what others still can."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gateway_play import Served, key_for, served
from runner_play import soon

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.gateway.server import Configuration, Connection, default_most_connections
from turnwise.stores import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
AUTH = AuthConfig()
SESSIONS = "/api/v1/sessions"


@agent
async def clerk(context: AgentContext) -> str:
    """Answers."""
    return "Yes."


class Slow:
    """An agent that holds every message until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Semaphore(0), asyncio.Event()

        @agent
        async def slow() -> str:
            """Waits."""
            self.began.release()
            await self.go.wait()
            return "Yes."

        self.agent = slow

    async def reached(self, count: int) -> None:
        for _ in range(count):
            await self.began.acquire()


def few(**limits: int) -> RunConfig:
    return RunConfig(limits=Limits(**limits))


def refused(answer: httpx.Response) -> tuple[int, str, bool]:
    """The status, the code, and whether the answer names a time to try again."""
    return answer.status_code, answer.json()["code"], "Retry-After" in answer.headers


async def message(client: Served, headers: dict[str, str], session: str = "s", **body: Any) -> httpx.Response:
    return await client.send_message("hi", session, headers=headers, **body)


async def fork(client: Served, headers: dict[str, str]) -> httpx.Response:
    return await client.post(f"{SESSIONS}/s/fork", json={}, headers=headers)


async def create(client: Served, headers: dict[str, str]) -> httpx.Response:
    return await client.post(SESSIONS, json={}, headers=headers)


async def upload(client: Served, headers: dict[str, str]) -> httpx.Response:
    return await client.put(f"{SESSIONS}/s/artifacts/f", content=bytes(3_000), headers=headers)


async def large_state(client: Served, headers: dict[str, str]) -> httpx.Response:
    return await client.patch(f"{SESSIONS}/s/state", json={"state": {"user:a": "x" * 100}}, headers=headers)


REFUSALS: dict[str, tuple[RunConfig, Any, tuple[int, str, bool]]] = {
    "events of a session": (few(session_events=2), message, (409, "session.full", False)),
    "bytes of a session": (few(session_bytes=100), message, (409, "session.full", False)),
    "state of a user": (few(user_state_bytes=50), large_state, (413, "session.state_full", False)),
    "sessions": (few(sessions=1), create, (403, "user.sessions", False)),
    "forks": (few(forks=0), fork, (403, "user.forks", False)),
    "storage, by a file": (few(user_bytes=2_000), upload, (403, "user.storage", False)),
}


@pytest.mark.parametrize("limit", REFUSALS)
async def test_a_user_at_a_limit_is_told_which_and_others_go_on(make_runner: MakeRunner, limit: str) -> None:
    """J3."""
    config, work, expected = REFUSALS[limit]
    runner = make_runner(clerk, config=config, artifacts=InMemoryArtifactStore())
    async with served(runner, GatewayConfig(auth=AUTH)) as client:
        ann, bob = await key_for(runner, user="ann"), await key_for(runner, user="bob")
        assert (await message(client, ann)).status_code == 200
        before = (await client.get(f"{SESSIONS}/s", headers=ann)).json()
        answer = await work(client, ann)
        assert refused(answer) == expected
        assert f"limits.{next(iter(config.limits.model_fields_set))}" in answer.json()["fix"]
        assert (await client.get(f"{SESSIONS}/s", headers=ann)).json() == before
        assert len((await client.get(SESSIONS, headers=ann)).json()["sessions"]) == 1
        assert (await message(client, bob)).status_code == 200
        assert (await client.delete(f"{SESSIONS}/s", headers=ann)).status_code == 204
        assert (await message(client, ann)).status_code == 200


async def test_storage_that_is_full_takes_no_message_until_something_is_deleted(make_runner: MakeRunner) -> None:
    """J3."""
    runner = make_runner(clerk, config=few(user_bytes=5_000), artifacts=InMemoryArtifactStore())
    async with served(runner, GatewayConfig(auth=AUTH)) as client:
        ann = await key_for(runner, user="ann")
        assert (await message(client, ann)).status_code == 200
        while (answer := await upload(client, ann)).status_code < 300:
            pass
        assert refused(answer) == (403, "user.storage", False)
        body = {"id": "long", "deadline_seconds": 5}
        text = await client.send_message("x" * 4_900, "s", headers=ann, **body)
        assert text.status_code == 200  # a message is checked before its size is known to the store
        assert refused(await message(client, ann)) == (403, "user.storage", False)
        for path in ("/v1/responses", "/v1/chat/completions"):
            body = {"model": "turnwise", "input": "hi"} if "responses" in path else {"model": "turnwise", "messages": HI}
            assert (await client.post(path, json=body, headers=ann)).status_code == 403
        assert (await client.delete(f"{SESSIONS}/s", headers=ann)).status_code == 204
        assert (await message(client, ann)).status_code == 200


HI = [{"role": "user", "content": "hi"}]


async def test_open_requests_of_a_user_and_of_a_key_are_bounded(make_runner: MakeRunner) -> None:
    """J2: two keys of one user share the user's places; an admin's key has places of its own."""
    slow = Slow()
    runner = make_runner(slow.agent)
    async with served(runner, GatewayConfig(auth=AUTH, limits=CallerLimits(connections=2))) as client:
        one, two, bob = [await key_for(runner, user=user) for user in ("ann", "ann", "bob")]
        waiting = [asyncio.create_task(message(client, key, session)) for key, session in ((one, "a"), (two, "b"))]
        await slow.reached(2)
        for key in (one, two):
            assert refused(await create(client, key)) == (429, "access.too_many", True)
        assert (await create(client, bob)).status_code == 201
        slow.go.set()
        assert [(await soon(task)).status_code for task in waiting] == [200, 200]
        assert (await create(client, one)).status_code == 201


async def test_deleting_a_user_and_changing_a_session_cost_by_their_data(make_runner: MakeRunner) -> None:
    """J2."""
    runner = make_runner(clerk)
    config = GatewayConfig(auth=AUTH, limits=CallerLimits(requests=100))
    async with served(runner, config) as client:
        for number in range(60):
            await runner.sessions.create(runner.key("ann", str(number)))
        ann = await key_for(runner, user="ann")
        assert (await client.delete("/api/v1/users/ann", headers=ann)).status_code == 204
        ann = await key_for(runner, user="ann")  # the old key may be erased with the user; the user's counters go on
        left = 0
        while (await client.get(SESSIONS, headers=ann)).status_code == 200:
            left += 1
        assert left == 100 - 1 - (2 + 60 // 10)


async def test_pages_of_events_end_by_bytes_and_name_large_files_by_size(make_runner: MakeRunner) -> None:
    """J3: a page with many large files costs neither the process nor the client their data, and none is left out."""
    runner = make_runner(clerk)
    async with served(runner, GatewayConfig()) as client:
        data = b64encode(bytes(400_000)).decode()
        for number in range(6):
            part = {"kind": "blob", "data": data, "mime_type": "image/png", "name": f"{number}.png"}
            content = {"role": "user", "parts": [{"kind": "text", "text": "see"}, part]}
            assert (await client.send_message(content)).status_code == 200
        for blobs in (False, True):
            after, found, sizes = 0, [], []
            while after is not None:
                params = {"after": after, "limit": 200, "blobs": blobs}
                page = await client.get(f"{SESSIONS}/s/events", params=params)
                sizes.append(len(page.content))
                found += page.json()["events"]
                after = page.json()["next"]
            assert [event["sequence"] for event in found] == list(range(1, 13))
            assert len(sizes) > 2
            assert max(sizes) < (1_100_000 if blobs else 20_000)
            files = [part for event in found for part in event["content"]["parts"] if part["kind"] == "blob"]
            assert [(file["data"], file.get("size")) for file in files] == [(data, None) if blobs else ("", 400_000)] * 6


def limited(most: int) -> type[Connection]:
    class Limited(Connection):
        def __init__(self, config: Configuration, *args: Any, **more: Any) -> None:
            config.most_connections = most
            super().__init__(config, *args, **more)

    return Limited


async def test_a_process_closes_idle_connections_for_new_ones(make_runner: MakeRunner) -> None:
    """J2: connections that ask for nothing never keep others out."""
    async with served(make_runner(clerk), connection=limited(3)) as client:
        url = httpx.URL(client.address)
        idle = [await asyncio.open_connection(url.host, url.port) for _ in range(10)]
        assert (await soon(client.send_message("hi"))).status_code == 200
        assert (await soon(client.send_message("hi"))).status_code == 200
        assert await soon(closed(idle[0][0]))
        for _, writer in idle:
            writer.transport.abort()


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def test_a_process_whose_connections_are_all_busy_says_when_to_try_again(make_runner: MakeRunner) -> None:
    """J2."""
    slow = Slow()
    async with served(make_runner(slow.agent), connection=limited(2)) as client:
        busy = [asyncio.create_task(client.send_message("hi", session)) for session in ("a", "b")]
        await slow.reached(2)
        answer = await soon(client.get("/api/v1/health"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        slow.go.set()
        assert [(await soon(task)).status_code for task in busy] == [200, 200]
        assert (await soon(client.get("/api/v1/health"))).status_code == 200


def test_files_are_left_for_the_store() -> None:
    most = default_most_connections()
    assert most is None or most >= 1
