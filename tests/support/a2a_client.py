"""How tests talk to a gateway with the A2A SDK's own client."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
from a2a import types as wire
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from gateway_play import Served, served

from turnwise import Runner, SqlSessionStore
from turnwise.facts.gateway import GatewayConfig

JSONRPC, HTTP = "JSONRPC", "HTTP+JSON"
SPOKEN = {"A2A-Version": "1.0"}
State = wire.TaskState


class Spoken(NamedTuple):
    """A gateway that is served, the runner behind it, and a client of the SDK's, whose answers to messages are streams or
    not.
    """

    client: Client
    gateway: Served
    runner: Runner
    card: wire.AgentCard

    async def send(self, *said: Any, **options: Any) -> wire.StreamResponse:
        """The last of what comes for a message."""
        return (await self.all_of(*said, **options))[-1]

    async def task(self, *said: Any, **options: Any) -> wire.Task:
        """The task that comes for a message."""
        response = await self.send(*said, **options)
        assert response.HasField("task"), response
        return response.task

    async def all_of(self, *said: Any, **options: Any) -> list[wire.StreamResponse]:
        """All that comes for a message. Options: fields of the message, and `configuration`."""
        request = request_of(*said, **options)
        return [response async for response in self.client.send_message(request)]

    async def rpc(self, method: str, params: Any = None, **more: Any) -> Any:
        """What is answered to a call, without the SDK."""
        call = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params or {}}
        return (await self.gateway.post("/a2a", json=call, headers=SPOKEN | more.pop("headers", {}), **more)).json()


@asynccontextmanager
async def spoken(
    root: Any, gateway: GatewayConfig | None = None, *, binding: str = JSONRPC, streaming: bool = False, **options: Any
) -> AsyncIterator[Spoken]:
    """A gateway in front of that agent, and the SDK's client. Options are the runner's."""
    runner = Runner(root, **{"store": SqlSessionStore("sqlite://"), **options})
    try:
        async with served(runner, gateway) as client, a_client(client, binding, streaming=streaming) as (sdk, card):
            yield Spoken(sdk, client, runner, card)
    finally:
        await runner.close()


@asynccontextmanager
async def a_client(
    gateway: Served, binding: str = JSONRPC, *, streaming: bool = False, headers: Any = None
) -> AsyncIterator[tuple[Client, wire.AgentCard]]:
    """The SDK's client of that gateway, and the card that it went by."""
    async with httpx.AsyncClient(trust_env=False, timeout=30.0, headers=headers) as http:
        card = await A2ACardResolver(http, gateway.address).get_agent_card()
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card), card


def request_of(*said: Any, configuration: dict[str, Any] | None = None, **fields: Any) -> wire.SendMessageRequest:
    """The request with a message that says this: texts, or parts."""
    parts = [wire.Part(text=each) if isinstance(each, str) else each for each in said]
    given: dict[str, Any] = {"message_id": str(uuid4()), "role": wire.Role.ROLE_USER, "parts": parts, **fields}
    metadata = given.pop("metadata", None)
    message = wire.Message(**given)
    if metadata is not None:
        message.metadata.update(metadata)
    return wire.SendMessageRequest(message=message, configuration=wire.SendMessageConfiguration(**configuration or {}))


def words(task: wire.Task) -> list[str]:
    """What was said, artifact by artifact."""
    return [text_of(artifact.parts) for artifact in task.artifacts]


def asked(task: wire.Task) -> str:
    """What the status says."""
    return text_of(task.status.message.parts)


def text_of(parts: Sequence[wire.Part]) -> str:
    return "".join(part.text for part in parts)
