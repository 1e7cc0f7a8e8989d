"""Somebody who is notified, at a port of his own: a server that writes down what it gets."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

DEADLINE_SECONDS = 30.0


class Got(NamedTuple):
    """A notification: the path that was asked for, the headers by names in small letters, the body."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def kind(self) -> str:
        """What it tells: `statusUpdate`, `artifactUpdate`, `task`."""
        (kind,) = self.body
        return str(kind)

    @property
    def told(self) -> str:
        """The state, or the words of the artifact."""
        if self.kind == "artifactUpdate":
            return "".join(part["text"] for part in self.body[self.kind]["artifact"]["parts"])
        return str(self.body[self.kind]["status"]["state"])


class Receiver:
    """Answers with these statuses, in turn, and then with 200. A status of 0: it never answers; -1: not in HTTP. extra: raw
    header lines of every answer; length: how long the body of an answer is.
    """

    def __init__(self, statuses: Sequence[int] = (), *, extra: str = "", length: int = 2) -> None:
        self.got: list[Got] = []
        self.asked = 0
        self.port = 0
        self.written = 0
        self._statuses, self._extra, self._length = list(statuses), extra, length
        self._news = asyncio.Event()

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def until(self, count: int) -> list[Got]:
        """Returns when so many were taken; gives them."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.got) < count:
                self._news.clear()
                await self._news.wait()
        return self.got

    async def until_asked(self, count: int) -> None:
        """Returns when it was asked so often, whatever it answered."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.asked < count:
                self._news.clear()
                await self._news.wait()

    async def until_over(self) -> list[str]:
        """Returns when a state was told after which nothing more comes; gives all that was told."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not self.got or self.got[-1].told not in {
                "TASK_STATE_COMPLETED",
                "TASK_STATE_FAILED",
                "TASK_STATE_CANCELED",
            }:
                self._news.clear()
                await self._news.wait()
        return self.told

    @property
    def told(self) -> list[str]:
        return [got.told for got in self.got]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers["content-length"]))
            status = self._statuses.pop(0) if self._statuses else 200
            self.asked += 1
            self._news.set()
            if status <= 0:
                writer.write(b"So it is not.\r\n\r\n" if status else b"")
                await reader.read()
                return
            if status == 200:
                self.got.append(Got(head[0].split(" ")[1], headers, json.loads(body)))
            answer = f"HTTP/1.1 {status} So\r\nContent-Length: {self._length}\r\n{self._extra}\r\n"
            writer.write(answer.encode())
            for _ in range(0, self._length, 65_536):
                writer.write(b"x" * min(self._length, 65_536))
                await writer.drain()
                self.written += 65_536
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._news.set()
            writer.close()


@asynccontextmanager
async def receiving(
    statuses: Sequence[int] = (), *, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[Receiver]:
    """A receiver that listens."""
    receiver = Receiver(statuses, **options)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        server.close_clients() if hasattr(server, "close_clients") else None
