"""A small HTTP/1.1 client that keeps its connections. A request is one write, which matters at thousands of wake-ups."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from turnwise.facts.errors import MissingExtra

CONNECT_SECONDS, SECONDS = 3.0, 10.0
IDLE_SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024
"""The size of the largest answer that is read."""


class NoAnswer(Exception):
    """The request was not answered; the message says why."""


class _Closed(Exception):
    """The server had closed the connection before it answered."""


class HttpClient:
    """A client of one server. For one event loop, which sends few requests at a time.

    Args:
        url: `http://HOST:PORT`, or `https://…`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url, self._host, self._port = url, parts.hostname or "", parts.port or 0
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = f"host: {parts.netloc}\r\ncontent-type: application/json\r\naccept: application/json\r\n"
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, target: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Returns the status and the content of the answer. Sends again if a kept connection was closed meanwhile.

        Raises:
            NoAnswer: There was none in time.
        """
        own = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        length = f"content-length: {len(content)}\r\n" if content is not None else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._headers}{own}{length}\r\n".encode("ascii")
        try:
            async with asyncio.timeout(SECONDS):
                return await self._exchange(head + (content or b""))
        except TimeoutError:
            raise NoAnswer("it takes too long") from None
        except (OSError, ssl.SSLError) as problem:
            raise NoAnswer(str(problem) or type(problem).__name__) from None

    async def close(self) -> None:
        """Closes the kept connections."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        """Sends a request on a kept or new connection; a kept one that was closed is replaced. Raises NoAnswer."""
        while True:
            while self._idle and self._idle[0].is_stale():
                self._idle.pop(0).close()
            is_kept = bool(self._idle)
            connection = self._idle.pop() if is_kept else await self._connect()
            try:
                answer = await connection.exchange(request)
            except _Closed:
                if is_kept:
                    continue
                raise NoAnswer("it closed the connection") from None
            finally:
                if connection.is_reusable:
                    self._idle.append(connection)
                else:
                    connection.close()
            return answer

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(lambda: _Connection(loop), self._host, self._port, ssl=self._tls)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time. The parser calls the methods `on_…`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            import httptools
        except ImportError:
            raise MissingExtra("Restate", "restate") from None
        self._loop, self._httptools = loop, httptools
        self._parser: Any = None
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._content = bytearray()
        self._has_begun = False
        self._idle_since = 0.0
        self.is_reusable = False
        """True if another request can be sent, now that the answer was read."""

    def is_stale(self) -> bool:
        """Returns whether it was idle so long that a device on the way may have dropped it."""
        return self._loop.time() - self._idle_since > IDLE_SECONDS

    def close(self) -> None:
        # Aborted: a server that does not answer shall not delay its client's end.
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Sends a request and returns status and content. Raises _Closed, NoAnswer."""
        if self._transport is None or self._transport.is_closing():
            self.is_reusable = False
            raise _Closed
        self._parser = self._httptools.HttpResponseParser(self)
        self._content, self._has_begun, self.is_reusable = bytearray(), False, False
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            # Unrequested data: the connection cannot be used again.
            self.is_reusable = False
            self.close()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except self._httptools.HttpParserError as problem:
            self._fail(NoAnswer(str(problem) or type(problem).__name__))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable, self._transport = False, None
        self._fail(NoAnswer("its answer is incomplete") if self._has_begun else _Closed())

    def on_body(self, body: bytes) -> None:
        self._content += body
        if len(self._content) > MOST_BYTES:
            self._fail(NoAnswer("its answer is too long"))

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self.is_reusable, self._idle_since = self._parser.should_keep_alive(), self._loop.time()
            self._answer.set_result((self._parser.get_status_code(), bytes(self._content)))

    def _fail(self, problem: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(problem)
