"""Load generator over keep-alive connections. Hand-written HTTP/1.1, so that the client uses little CPU; the same for both
sides.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PathOf = Callable[[int, int], str]
"""Returns the path of a connection's n-th request."""


class Loaded(NamedTuple):
    """per_second: requests per second. p50, p99: milliseconds of one request."""

    per_second: float
    p50: float
    p99: float


class Target(NamedTuple):
    """The address, headers and body of the requests."""

    port: int
    path: PathOf
    body: Mapping[str, Any]
    headers: Mapping[str, str] = {}

    def request(self, path: str, **more: str) -> bytes:
        """One request as bytes."""
        body = json.dumps(self.body).encode()
        headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": len(body), **self.headers, **more}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode() + body


async def loaded(target: Target, connections: int, each: int) -> Loaded:
    """Opens that many connections, each with that many sequential requests. All must be answered with 200."""
    took: list[float] = []
    began = time.perf_counter()
    await asyncio.gather(*(_one(target, number, each, took) for number in range(connections)))
    wall = time.perf_counter() - began
    return Loaded(len(took) / wall, *(1_000 * at(took, share) for share in (0.5, 0.99)))


def at(values: Sequence[float], share: float) -> float:
    """The quantile of the values."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def _one(target: Target, number: int, each: int, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    try:
        for request in range(each):
            began = time.perf_counter()
            writer.write(target.request(target.path(number, request)))
            await _answered(reader)
            took.append(time.perf_counter() - began)
    finally:
        writer.close()


async def _answered(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    body = await reader.readexactly(int(length))
    if head.split(b" ", 2)[1] != b"200":
        raise RuntimeError(f"{head.decode(errors='replace')}{body.decode(errors='replace')}")
    return body


class Stream:
    """One open stream of server-sent events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def opened(cls, target: Target, path: str) -> "Stream":
        """Opens a stream and waits for its first event."""
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        writer.write(target.request(path, Accept="text/event-stream"))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(head.decode(errors="replace"))
        await reader.readuntil(b"event: event")
        return cls(reader, writer)

    async def answered(self) -> None:
        """Waits until its answer is complete."""
        await self._reader.readuntil(b"event: answer")
        self._writer.close()
