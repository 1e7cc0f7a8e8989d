"""Conversations with many large files, in each protocol that reads them in pages: a page holds their sizes, not their data."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a import types as wire
from a2a_client import a_client
from gateway_play import Served, served
from mcp_client_play import client_of
from mcp_types import TextResourceContents

from turnwise import Content, Runner, SqlSessionStore, agent
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.gateway import GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore

SIZE, COUNT = 300_000, 10
PAGE = 60_000
"""A page without data is shorter, although one file alone is longer."""
FILE = BlobPart(data=bytes(SIZE), mime_type="image/png", name="plan.png")
ENCODED = b64encode(FILE.data).decode()
EVENTS = list(range(1, 2 * COUNT + 1))


@agent
async def clerk(message: str) -> Content:
    return Content(parts=(TextPart(text="Here."), FILE), role="agent")


@asynccontextmanager
async def full() -> AsyncIterator[tuple[Runner, Served]]:
    """A gateway with a session of which each message and each answer holds a file."""
    runner = Runner(clerk, app="app", store=SqlSessionStore("sqlite://"), artifacts=InMemoryArtifactStore())
    try:
        for _ in range(COUNT):
            said = Content(parts=(TextPart(text="see"), FILE), role="user")
            await (await runner.start(said, user="local", session="s")).result()
        async with served(runner, GatewayConfig()) as client:
            yield runner, client
    finally:
        await runner.close()


def files_in(found: Any) -> list[dict[str, Any]]:
    return [part for event in found for part in event["content"]["parts"] if part["kind"] == "blob"]


async def test_our_own_api() -> None:
    """J3: also the events of one invocation, which are read whole on request."""
    async with full() as (_, client):
        at = "/api/v1/sessions/s"
        found, after = [], 0
        while after is not None:
            page = await client.get(f"{at}/events", params={"user": "local", "after": after, "limit": 200})
            assert len(page.content) < PAGE
            found += page.json()["events"]
            after = page.json()["next"]
        assert [event["sequence"] for event in found] == EVENTS
        assert [(file["data"], file["size"]) for file in files_in(found)] == [("", SIZE)] * len(EVENTS)
        path = f"{at}/invocations/{found[0]['invocation_id']}/events"
        for blobs, data in ((False, ""), (True, ENCODED)):
            page = await client.get(path, params={"user": "local", "blobs": blobs})
            assert [file["data"] for file in files_in(page.json()["events"])] == [data] * 2


async def test_a_session_of_the_adk() -> None:
    """J3: a file's URI leads to its data."""
    async with full() as (_, client):
        answer = await client.get("/adk/apps/app/users/local/sessions/s")
        assert len(answer.content) < PAGE
        parts = [part for event in answer.json()["events"] for part in event["content"]["parts"]]
        files = [part["fileData"] for part in parts if "fileData" in part]
        assert {(file["mimeType"], file["displayName"]) for file in files} == {("image/png", "plan.png")}
        (event,) = (await client.get(files[-1]["fileUri"])).json()["events"]
        assert (event["sequence"], files_in([event])[0]["data"]) == (EVENTS[-1], ENCODED)


async def test_a_resource_of_mcp() -> None:
    """J3"""
    async with full() as (_, client), client_of(client.address, path="/mcp?user=local") as mcp:
        uri: str | None = "turnwise://sessions/s"
        found: list[dict[str, Any]] = []
        while uri is not None:
            (contents,) = (await mcp.read_resource(uri)).contents
            assert isinstance(contents, TextResourceContents)
            assert len(contents.text) < PAGE
            page = json.loads(contents.text)
            found, uri = [*page["events"], *found], page.get("earlier")
        assert [event["sequence"] for event in found] == EVENTS
        assert [(file["data"], file["size"]) for file in files_in(found)] == [("", SIZE)] * len(EVENTS)


async def test_tasks_of_a2a() -> None:
    """J3: a list shares the bytes of one response; a task alone has its files."""
    async with full() as (_, client), a_client(client) as (sdk, _card):
        page = await sdk.list_tasks(wire.ListTasksRequest(include_artifacts=True, history_length=10))
        assert (len(page.tasks), page.ByteSize() < PAGE) == (COUNT, True)
        texts = [part.text for artifact in page.tasks[0].artifacts for part in artifact.parts]
        assert texts == ["Here.", f"[file: plan.png, {SIZE:,} bytes]"]
        task = await sdk.get_task(wire.GetTaskRequest(id=page.tasks[0].id))
        assert [part.raw for artifact in task.artifacts for part in artifact.parts][1] == FILE.data


async def test_messages_of_ag_ui() -> None:
    """J3"""
    async with full() as (_, client):
        body = {"threadId": "s", "runId": "r", "state": {}, "messages": [], "tools": [], "context": [], "forwardedProps": {}}
        answer = await client.post("/ag-ui?user=local", json=body)
        assert len(answer.content) < PAGE
        (told,) = [line for line in answer.text.splitlines() if "MESSAGES_SNAPSHOT" in line]
        assert len(json.loads(told.removeprefix("data:"))["messages"]) > 1
