"""How the gateway's tests stand it up and talk to it: over real sockets, in the test's own loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

from turnwise import Runner
from turnwise.access.api_keys import new_key
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.front import Front
from turnwise.gateway.server import Connection, front_for, serving
from turnwise.telemetry.metrics import Metrics

DEADLINE_SECONDS = 30.0


class Served(httpx.AsyncClient):
    """A client of a gateway that is served, and its front."""

    def __init__(self, address: str, front: Front) -> None:
        super().__init__(base_url=address, timeout=DEADLINE_SECONDS, trust_env=False)
        self.address, self.front = address, front

    async def send_message(self, content: Any, session: str = "s", **options: Any) -> httpx.Response:
        """A message to our own API. Options of a request, and fields of the body: `id`, `context`, …"""
        request = {name: options.pop(name) for name in ("headers", "params") if name in options}
        return await self.post(f"/api/v1/sessions/{session}/messages", json={"content": content, **options}, **request)

    async def stream_message(self, content: Any, session: str = "s", **options: Any) -> list[tuple[str, str, str]]:
        """The same as a stream, read to its end: (event, id, data) of each."""
        headers = {"Accept": "text/event-stream", **options.pop("headers", {})}
        answer = await self.send_message(content, session, headers=headers, **options)
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        return events_in(answer.text)


@asynccontextmanager
async def served(
    runner: Runner,
    config: GatewayConfig | None = None,
    *,
    ready: bool = True,
    metrics: Metrics | None = None,
    connection: type[Connection] = Connection,
) -> AsyncIterator[Served]:
    """The gateway of that runner at a port of its own, and a client of it. Whoever made the runner closes it."""
    front = front_for(runner, config or GatewayConfig(), metrics)
    if ready:
        front.ready.set()
    async with serving(front, connection=connection) as gateway, Served(gateway.address, front) as client:
        yield client


async def key_for(runner: Runner, **rights: Any) -> dict[str, str]:
    """The headers that bring a new API key with these rights of `new_key`; without any, ann's."""
    text, key = new_key("a key", datetime.now(UTC), **(rights or {"user": "ann"}))
    await runner.store.keys.add(runner.app, key)  # type: ignore[attr-defined]
    return {"Authorization": f"Bearer {text}"}


async def answered_raw(address: str, request: bytes) -> bytes:
    """What comes, up to the end of the connection, when these bytes are sent: for requests that no client would make."""
    url = httpx.URL(address)
    async with asyncio.timeout(DEADLINE_SECONDS):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


def events_in(stream: str) -> list[tuple[str, str, str]]:
    """The server-sent events in a text: (event, id, data); comments left out."""
    found = []
    for block in stream.split("\n\n"):
        fields = [line.partition(": ")[::2] for line in block.splitlines() if line and not line.startswith(":")]
        if fields:
            known = dict(fields)
            data = "\n".join(value for name, value in fields if name == "data")
            found.append((known.get("event", "message"), known.get("id", ""), data))
    return found
