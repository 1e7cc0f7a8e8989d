"""The memory of users over HTTP: list, search, add, forget; what is another user's is as if it were not there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from gateway_play import Served, served

from turnwise import agent
from turnwise.runner import Runner

AT = "/api/v1/users/{}/memories"


@asynccontextmanager
async def served_desk() -> AsyncIterator[Served]:
    runner = Runner(desk)
    async with served(runner) as client:
        yield client
    await runner.close()


@agent(name="desk", description="Answers.")
async def desk(message: str) -> str:
    return "yes"


async def test_entries_are_added_found_and_forgotten() -> None:
    """C14, G6, G7."""
    async with served_desk() as client:
        tea = (await client.post(AT.format("ann"), json={"text": "Ann likes green tea.", "id": "tea"})).json()
        assert (tea["said_by"], tea["span"], tea["session_id"]) == ("operator", "long", None)
        again = await client.post(AT.format("ann"), json={"text": "Other words.", "id": "tea"})
        assert again.json()["text"] == "Ann likes green tea."
        newer = await client.post(AT.format("ann"), json={"text": "Ann likes coffee.", "supersedes": ["tea"]})
        assert newer.status_code == 201
        listed = (await client.get(AT.format("ann"))).json()
        assert [each["text"] for each in listed["memories"]] == ["Ann likes coffee."]
        every = (await client.get(AT.format("ann"), params={"superseded": True, "limit": 1})).json()
        assert every["next"]
        found = (await client.post(AT.format("ann") + "/search", json={"query": "coffee?", "limit": 1})).json()
        assert [each["memory"]["text"] for each in found["found"]] == ["Ann likes coffee."]
        assert (await client.get(AT.format("ann") + "/tea")).json()["text"] == "Ann likes green tea."
        assert (await client.get(AT.format("bob") + "/tea")).status_code == 404
        assert (await client.request("DELETE", AT.format("bob"), params={"id": "tea"})).json() == {"forgotten": 0}
        forgotten = await client.request("DELETE", AT.format("ann"), params={"id": newer.json()["id"]})
        assert forgotten.json() == {"forgotten": 2}
        assert (await client.get(AT.format("ann"))).json() == {"memories": [], "next": None}


@pytest.mark.parametrize(
    "body",
    [
        {"text": ""},
        {"text": " "},
        {"text": "x" * 4_001},
        {"text": "x", "kind": "rumour"},
        {"text": "x", "span": "ever"},
        {"text": "x", "said_by": "operator"},
        {"text": "x", "entity": {"type": "order"}},
        {"text": "x", "id": "y" * 129},
        {"text": 5},
        {},
    ],
)
async def test_a_wrong_entry_is_refused(body: Any) -> None:
    async with served_desk() as client:
        refused = await client.post(AT.format("ann"), json=body)
        assert refused.status_code == 422
        assert refused.json()["code"] in {"request.invalid", "memory.invalid"}
        assert (await client.get(AT.format("ann"))).json()["memories"] == []


async def test_a_wrong_request_is_refused() -> None:
    async with served_desk() as client:
        at = AT.format("ann")
        assert (await client.post(f"{at}/search", json={"query": "x" * 1_000_000})).status_code in {413, 422}
        assert (await client.get(at, params={"kind": "rumour"})).status_code == 422
        assert (await client.get(at, params={"after": "x"})).status_code == 422
        await client.post(at, json={"text": "kept", "id": "kept"})
        both = await client.request("DELETE", at, params={"id": "kept", "session_id": "s"})
        assert (both.status_code, both.json()["where"]) == (422, ["query", "session_id"])
        assert len((await client.get(at)).json()["memories"]) == 1
        missing = await client.post(at, json={"text": "x", "session_id": "nowhere"})
        assert (missing.status_code, missing.json()["code"]) == (404, "session.missing")


async def test_an_adk_client_adds_a_session() -> None:
    async with served_desk() as client:
        await client.post("/api/v1/sessions/s/messages?user=ann&wait=true", json={"content": "I like tea."})
        added = await client.patch("/adk/apps/app/users/ann/memory", json={"sessionId": "s"})
        assert (added.status_code, added.json()) == (200, None)
        await client.patch("/adk/apps/app/users/ann/memory", json={"sessionId": "s"})
        listed = (await client.get(AT.format("ann"))).json()["memories"]
        assert [(each["text"], each["said_by"]) for each in listed] == [("yes", "agent"), ("I like tea.", "user")]
