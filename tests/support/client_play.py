"""What the client's tests put between it and a gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx

READ_BYTES = 65_536


class Between:
    """A TCP proxy. upstream: the gateway that new connections lead to; None = they break off at once. cuts: after how many
    bytes of what comes back each of the next connections breaks off; None = it does not. made: how many there were.
    """

    def __init__(self, upstream: str | None, *cuts: int | None) -> None:
        self.upstream, self.cuts, self.made = upstream, list(cuts), 0
        self.address = ""
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()
            await self.break_off()

    async def break_off(self) -> None:
        """Breaks all connections off that there are."""
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if self.upstream is not None:
                await self._between(reader, writer, self.cuts.pop(0) if self.cuts else None)
        except (OSError, asyncio.CancelledError):
            pass  # either side left
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _between(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
        url = httpx.URL(self.upstream or "")
        gateway, to_gateway = await asyncio.open_connection(url.host, url.port)
        there = asyncio.create_task(_pass(reader, to_gateway, None))
        try:
            await _pass(gateway, writer, most)
        finally:
            there.cancel()
            await asyncio.gather(there, return_exceptions=True)
            to_gateway.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
    """Up to the end, or so many bytes."""
    while most != 0 and (data := await reader.read(READ_BYTES)):
        data = data[:most]
        most = None if most is None else most - len(data)
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def between(upstream: str | None, *cuts: int | None) -> AsyncIterator[Between]:
    """That proxy, at a port of its own."""
    proxy = Between(upstream, *cuts)
    async with proxy.listening():
        yield proxy


Answers = Callable[[httpx.Request], Awaitable[httpx.Response]] | Callable[[httpx.Request], httpx.Response]


class Script:
    """Answers requests without any socket: each with the next of these, which is raised if it is an error; the last again and
    again. asked: the requests.
    """

    def __init__(self, *answers: httpx.Response | Exception | Answers) -> None:
        self.asked: list[httpx.Request] = []
        self._answers = list(answers)

    def http(self) -> httpx.AsyncClient:
        """What a client is given as `http`."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        given = answer if isinstance(answer, httpx.Response) else answer(request)
        return await given if isinstance(given, Awaitable) else given


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    """A problem as the gateway writes it."""
    told = json.dumps({"code": code, "title": "It went wrong.", "fix": ""})
    return httpx.Response(status, text=told, headers={"Content-Type": "application/problem+json", **headers})
