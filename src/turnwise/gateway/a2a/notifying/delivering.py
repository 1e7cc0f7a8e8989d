"""One notification on its way: to an address that was judged, and nowhere else."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpcore

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.a2a.notifying.guarding import Guard, Target, target_of

SECONDS = 10.0
"""How long one may take in all."""
CONNECT_SECONDS = 2.0
"""How long one of several addresses is waited for, before the next is tried."""
READ_BYTES, ANSWER_BYTES = 4096, 65_536
"""How much of an answer's body is read, and how much of all that comes: what it says is of no use."""


class Undelivered(Exception):
    """Why it did not arrive, in words that hold nothing secret."""


class Courier:
    """Every notification is a connection of its own, made to an address that was looked up and judged for it: names may come
    to mean something else. Redirects are not followed, and proxies that the environment names are not used.

    seconds: for all of one. tls: as what certificates are believed; None = those of this machine.
    """

    def __init__(self, guard: Guard, *, seconds: float = SECONDS, tls: ssl.SSLContext | None = None) -> None:
        self._guard, self._seconds, self._tls = guard, seconds, tls

    async def deliver(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Returns when it was taken. Undelivered."""
        try:
            async with asyncio.timeout(self._seconds):
                target = target_of(url)
                status = await self._posted(target, await self._guard.addresses(target), headers, body)
        except TimeoutError:
            raise Undelivered(f"it took longer than {self._seconds:g} seconds") from None
        except RequestInvalid as problem:
            raise Undelivered(problem.problem) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as problem:
            raise Undelivered(f"it could not be sent ({type(problem).__name__})") from None
        if not 200 <= status < 300:
            raise Undelivered(f"the answer was {status}")

    async def _posted(self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer."""
        host = target.host.encode()
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(target.scheme.encode(), host, target.port),
            ssl_context=self._context() if target.scheme == "https" else None,
            network_backend=_Pinned(addresses),
        )
        url = httpcore.URL(scheme=target.scheme.encode(), host=host, port=target.port, target=target.path.encode())
        sent = {"Host": target.authority, **headers, "Content-Length": str(len(body)), "Connection": "close"}
        try:
            response = await connection.handle_async_request(
                httpcore.Request("POST", url, headers=list(sent.items()), content=body)
            )
            try:
                await _read_some(response)
            finally:
                await response.aclose()
            return response.status
        finally:
            await connection.aclose()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to these addresses, in turn, whatever the host is called. Certificates are still for the host's name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses, self._network = addresses, httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = self._addresses
        for address in others:
            try:
                return _Bounded(await self._network.connect_tcp(address, port, CONNECT_SECONDS, local_address, socket_options))
            except (httpcore.NetworkError, httpcore.TimeoutException):
                continue
        return _Bounded(await self._network.connect_tcp(last, port, timeout, local_address, socket_options))


class _Bounded(httpcore.AsyncNetworkStream):
    """A connection of which no more than `ANSWER_BYTES` are read. What goes before an answer has no end of its own."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, ANSWER_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise httpcore.ReadError("The answer is too long.")
        read = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(read)
        return read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Bounded(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _read_some(response: httpcore.Response) -> None:
    read = 0
    async for chunk in response.aiter_stream():
        read += len(chunk)
        if read >= READ_BYTES:
            return
