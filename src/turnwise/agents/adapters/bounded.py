"""An HTTP client for services that are not trusted: it reads no more than it may."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def bounded_client(most: int) -> "httpx.AsyncClient":
    """A client that follows no redirects, and ends an answer after `most` bytes, or one that is packed, with an error of its
    own (httpx.RemoteProtocolError)."""
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
            response = await super().handle_async_request(request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = Counted(response.stream)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx.RemoteProtocolError("The answer is packed, though it was not to be.")
            return response

    return httpx.AsyncClient(transport=Bounded(), headers={"Accept-Encoding": "identity"})
