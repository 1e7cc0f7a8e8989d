"""A small HTTP/1.1 client that keeps its connections. A request is one write, which matters at thousands of wake-ups."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnwise.facts.errors import MissingExtra

if TYPE_CHECKING:
    pass

CONNECT_SECONDS, SECONDS = 3.0, 10.0
IDLE_SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024
"""The size of the largest answer that is read."""


class NoAnswer(Exception):
    """The request was not answered; the message says why."""


class _Closed(Exception):
    """The server had closed a kept connection."""


class HttpClient:
    """A client of one server. For one event loop, which sends few requests at a time.

    Args:
        url: `http://HOST:PORT`, or `https://…`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url, self._host, self._port = url, parts.hostname or "", parts.port or 0
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"host": parts.netloc, "content-type": "application/json", "accept": "application/json"}
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, target: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Returns the status and the content of the answer. Sends again if a kept connection was closed meanwhile.

        Raises:
            NoAnswer: There was none in time.
        """
        sent = self._headers | ({"content-length": str(len(content))} if content is not None else {}) | dict(headers or {})
        try:
            async with asyncio.timeout(SECONDS):
                return await self._exchange(method, target, content, sent)
        except TimeoutError:
            raise NoAnswer("it takes too long") from None
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError) as problem:
            raise NoAnswer(str(problem) or type(problem).__name__) from None

    async def close(self) -> None:
        """Closes the kept connections."""
        while self._idle:
            await self._idle.pop().close()

    async def _exchange(self, method: str, target: str, content: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Sends a request on a kept or new connection; a kept one that was closed is replaced. Raises NoAnswer."""
        while True:
            while self._idle and self._idle[0].is_stale():
                await self._idle.pop(0).close()
            is_kept = bool(self._idle)
            async with self._idle.pop() if is_kept else await self._connect() as connection:
                try:
                    answer = await connection.exchange(method, target, content, headers)
                except _Closed:
                    if is_kept:
                        continue
                    raise NoAnswer("it closed the connection") from None
                if connection.is_reusable():
                    self._idle.append(connection)
                return answer

    async def _connect(self) -> "_Connection":
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return _Connection(reader, writer)


class _Connection:
    """One connection. As a context, it is closed at the end unless it is reusable."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            import h11
        except ImportError:
            raise MissingExtra("Restate", "restate") from None
        self._h11, self._state = h11, h11.Connection(h11.CLIENT)
        self._reader, self._writer = reader, writer
        self._is_reusable = False
        self._idle_since = 0.0

    async def __aenter__(self) -> "_Connection":
        self._is_reusable = False
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if not self._is_reusable:
            await self.close()

    def is_reusable(self) -> bool:
        """Returns whether another request can be sent, now that the answer was read."""
        states = (self._state.our_state, self._state.their_state)
        self._is_reusable = states == (self._h11.DONE, self._h11.DONE)
        if self._is_reusable:
            self._state.start_next_cycle()
            self._idle_since = asyncio.get_running_loop().time()
        return self._is_reusable

    def is_stale(self) -> bool:
        """Returns whether it was idle so long that a device on the way may have dropped it."""
        return asyncio.get_running_loop().time() - self._idle_since > IDLE_SECONDS

    async def close(self) -> None:
        # Aborted: a server that does not answer shall not delay its client's end.
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def exchange(self, method: str, target: str, content: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Sends a request and returns status and content. Raises _Closed, NoAnswer, OSError."""
        if self._reader.at_eof():
            raise _Closed
        send, h11 = self._state.send, self._h11
        data = send(h11.Request(method=method, target=target, headers=list(headers.items()))) or b""
        data += send(h11.Data(content)) or b"" if content is not None else b""
        try:
            self._writer.write(data + (send(h11.EndOfMessage()) or b""))
            return await self._read()
        except h11.RemoteProtocolError as problem:
            raise NoAnswer(str(problem)) from None
        except ConnectionError:
            raise _Closed from None

    async def _read(self) -> tuple[int, bytes]:
        """Reads one response and returns status and body. Raises NoAnswer if it is too long."""
        status, content, h11 = 0, bytearray(), self._h11
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(65_536)
                if not data and not status:
                    raise _Closed
                self._state.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > MOST_BYTES:
                    raise NoAnswer("its answer is too long")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(content)
