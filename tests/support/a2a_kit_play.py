"""The conformance kit's app, served, and clients of the SDK that talk to it as the kit does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client
from a2a.types import (
    AgentCard,
    Artifact,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a_client import HTTP, JSONRPC, SPOKEN, a_client
from gateway_play import Served, served

from turnwise.testing.a2a_kit import kit_app, kit_gateway

BINDINGS = (JSONRPC, HTTP)
RUN = "1f0c3a77"
"""Stands behind all ids of one run of the kit, so that a run sends some of them many times."""
OVER = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)


class Clock:
    """Takes the place of waiting: it lasts until it is told that the time has come."""

    def __init__(self) -> None:
        self.waits, self.over = asyncio.Event(), asyncio.Event()

    async def pause(self, seconds: float) -> None:
        self.waits.set()
        await self.over.wait()


class Kit:
    """The app that is served, and the SDK's clients of it: one that waits for answers, one that streams."""

    def __init__(self, gateway: Served, card: AgentCard, client: Client, streaming: Client, clock: Clock) -> None:
        self.gateway, self.card, self.client, self.clock = gateway, card, client, clock
        self._streaming = streaming

    async def send(self, begins: str, text: str = "Hello", **options: Any) -> Any:
        """What comes of a message whose id begins so: a Task or a Message. Options: fields of the message, `configuration`."""
        (told,) = [each async for each in self.client.send_message(_request(begins, text, options))]
        return told.task if told.HasField("task") else told.message

    async def task(self, begins: str, **options: Any) -> Task:
        """The same, of one that is answered with a task."""
        task = await self.send(begins, **options)
        assert isinstance(task, Task)
        return task

    async def stream(self, begins: str, **options: Any) -> list[StreamResponse]:
        """All that comes when it is to be streamed."""
        return [each async for each in self._streaming.send_message(_request(begins, "Hello", options))]

    @asynccontextmanager
    async def streaming(self, begins: str, **options: Any) -> AsyncIterator[AsyncIterator[StreamResponse]]:
        """The same, as it comes."""
        told: Any = self._streaming.send_message(_request(begins, "Hello", options))
        async with aclosing(told):
            yield told

    @asynccontextmanager
    async def subscribed(self, task: str) -> AsyncIterator[AsyncIterator[StreamResponse]]:
        """What comes of that task from here on."""
        told: Any = self._streaming.subscribe(SubscribeToTaskRequest(id=task))
        async with aclosing(told):
            yield told

    async def call(self, method: str, params: Any, **changes: Any) -> httpx.Response:
        """A call by JSON-RPC, without the SDK. changes: other fields of the call, and `headers`."""
        headers = {**SPOKEN, **changes.pop("headers", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **changes}
        return await self.gateway.post("/a2a", json=body, headers=headers)


@asynccontextmanager
async def kit(binding: str = JSONRPC) -> AsyncIterator[Kit]:
    """The app at a port of its own; what takes a while there takes until `clock.over` is set."""
    clock = Clock()
    runner = kit_app(pause=clock.pause)
    try:
        async with (
            served(runner, kit_gateway()) as gateway,
            a_client(gateway, binding) as (client, card),
            a_client(gateway, binding, streaming=True) as (streaming, _),
        ):
            try:
                yield Kit(gateway, card, client, streaming, clock)
            finally:
                clock.over.set()
    finally:
        await runner.close()


def given(told: Sequence[StreamResponse]) -> list[Artifact]:
    """The artifacts that a stream comes to."""
    found: dict[str, Artifact] = {}
    for each in told:
        if each.HasField("task"):
            found = {artifact.artifact_id: artifact for artifact in each.task.artifacts}
        elif each.HasField("artifact_update"):
            update = each.artifact_update
            if update.append:
                found[update.artifact.artifact_id].parts.extend(update.artifact.parts)
            else:
                found[update.artifact.artifact_id] = update.artifact
    return list(found.values())


def states(told: Sequence[StreamResponse]) -> list[int]:
    """The states of the task in a stream."""
    tasks = (each.task if each.HasField("task") else each.status_update for each in told)
    return [each.status.state for each in tasks if each.HasField("status")]


def _request(begins: str, text: str, options: dict[str, Any]) -> SendMessageRequest:
    configuration = SendMessageConfiguration(**options.pop("configuration", {}))
    fields = {"parts": [Part(text=text)], "message_id": f"{begins}-{RUN}", **options}
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, **fields), configuration=configuration)
