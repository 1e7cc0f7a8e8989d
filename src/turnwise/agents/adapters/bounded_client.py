"""The HTTP client for remote agents: bounded responses, no redirects, and only addresses that a guard allows."""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from turnwise.access.address_guard import AddressGuard, parse_target
from turnwise.facts.errors import RequestInvalid

if TYPE_CHECKING:
    import httpx


def bounded_client(most: int, guard: AddressGuard | None = None) -> "httpx.AsyncClient":
    """Returns an HTTP client that follows no redirects and limits the size of a response.

    A response longer than `most` bytes, or one that is compressed, raises httpx.RemoteProtocolError.

    Args:
        most: The most bytes of a response.
        guard: Allows the addresses. It resolves the host anew for each request, which then goes to the checked address. An
            address that it refuses raises httpx.ConnectError, and proxies of the environment are not used. None = all.
    """
    import httpx

    class Counted(httpx.AsyncByteStream):
        def __init__(self, stream: httpx.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise httpx.RemoteProtocolError(f"The answer is longer than {most:,} bytes.")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Bounded(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await self._send(request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = Counted(response.stream)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx.RemoteProtocolError("The answer is packed, though it was not to be.")
            return response

        async def _send(self, request: httpx.Request) -> httpx.Response:
            if guard is None:
                return await super().handle_async_request(request)
            url, refused = request.url, httpx.ConnectError("The host has no address.", request=request)
            for address in await _allowed_addresses(guard, request):
                # The name stays in the Host header, and certificates are verified for it.
                request.url = url.copy_with(host=address)
                request.extensions = {**request.extensions, "sni_hostname": url.host}
                try:
                    return await super().handle_async_request(request)
                except httpx.ConnectError as error:
                    refused = error
            raise refused

    return httpx.AsyncClient(transport=Bounded(), headers={"Accept-Encoding": "identity"}, trust_env=guard is None)


async def _allowed_addresses(guard: AddressGuard, request: "httpx.Request") -> Sequence[str]:
    """Returns the addresses that the guard allows for the request. Raises httpx.ConnectError when it refuses."""
    import httpx

    try:
        return await guard.addresses(parse_target(str(request.url), guard.field))
    except RequestInvalid as refused:
        raise httpx.ConnectError(refused.problem, request=request) from refused
