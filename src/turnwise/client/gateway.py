"""One gateway as the client asks it: with its credential, in its words, and again when that is safe."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from turnwise.client.asked import Asked
from turnwise.client.connections import Connections
from turnwise.client.patience import PASSING, Patience, Unreached, was_refused
from turnwise.client.problems import media_type, problem_in, strange
from turnwise.facts.errors import RequestInvalid

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
PREFIX = "/api/v1"
JSON, STREAM = "application/json", "text/event-stream"
CONNECT_SECONDS = 10.0


class Gateway:
    """url, key: as they were checked. timeout: seconds without a byte after which a connection is given up. patience: seconds
    for which what may pass is tried again.
    """

    def __init__(
        self, url: str, key: str | None, make: "Callable[[], httpx.AsyncClient]", *, timeout: float, patience: float
    ) -> None:
        self._url, self._connections = url, Connections(make)
        self._headers = {"User-Agent": f"turnwise/{version('turnwise')}"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout, self._patience = timeout, patience
        self._user: str | None = None

    def for_user(self, user: str | None) -> "Gateway":
        """The same gateway, asked for that user; connections are shared."""
        other = copy(self)
        other._user = user
        return other

    def patience(self) -> Patience:
        """For one undertaking."""
        return Patience(self._patience, self._connections)

    async def ask(self, kind: type[T], asked: Asked, *, repeatable: bool = True) -> T:
        """What that gives, tried again while it may pass. repeatable: doing it twice is as doing it once."""
        return await self._again(lambda: self.once(kind, asked), repeatable=repeatable)

    async def fetch(self, asked: Asked, *, repeatable: bool = True) -> "httpx.Response":
        """The same for what gives no JSON: the response, read."""
        return await self._again(lambda: self._read(asked), repeatable=repeatable)

    async def once(self, kind: type[T], asked: Asked) -> T:
        """What that gives, tried once. TurnwiseError as the gateway tells it, Unreached, NothingHere where no gateway is."""
        response = await self._read(asked)
        if media_type(response) != JSON:
            raise strange(response)
        try:
            return TypeAdapter(kind).validate_json(response.content)
        except ValidationError:
            raise strange(response) from None

    @asynccontextmanager
    async def stream(self, asked: Asked) -> "AsyncIterator[httpx.Response]":
        """The response of a stream that began well; tried once. Unreached also when it breaks off."""
        async with self._sent(asked, STREAM) as response:
            if not response.is_success:
                await response.aread()
                raise problem_in(response) or strange(response)
            if media_type(response) != STREAM:
                raise strange(response)
            yield response

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        await self._connections.close()

    async def _again(self, work: Callable[[], Awaitable[T]], *, repeatable: bool) -> T:
        patience = self.patience()
        while True:
            try:
                return await work()
            except PASSING as error:
                if not (repeatable or was_refused(error)) or not await patience.lasts(error):
                    raise

    async def _read(self, asked: Asked) -> "httpx.Response":
        async with self._sent(asked, JSON) as response:
            await response.aread()
        if problem := problem_in(response):
            raise problem
        return response

    @asynccontextmanager
    async def _sent(self, asked: Asked, accept: str) -> "AsyncIterator[httpx.Response]":
        import httpx

        http = await self._connections.here()
        request = self._request(http, asked, accept)
        try:
            response = await http.send(request, stream=True)
            self._connections.heard = True
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            raise _unreached(request, error, self._timeout) from error

    def _request(self, http: "httpx.AsyncClient", asked: Asked, accept: str) -> "httpx.Request":
        import httpx

        content = asked.written()
        headers = {**self._headers, "Accept": accept, **asked.headers}
        if asked.body is not None:
            headers["Content-Type"] = JSON
        query = {name: value for name, value in {"user": self._user, **asked.query}.items() if value is not None}
        timeout = httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS), pool=None)
        try:
            return http.build_request(
                asked.method, self._url + PREFIX + asked.path, content=content, params=query, headers=headers, timeout=timeout
            )
        except (UnicodeError, httpx.InvalidURL) as error:
            raise RequestInvalid(f"It cannot be sent: {error}.", fix="Correct the ids and names.") from None


def _unreached(request: "httpx.Request", error: "httpx.RequestError", timeout: float) -> Unreached:
    import httpx

    place = f"The gateway at {request.url.scheme}://{request.url.netloc.decode()}"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        why = f": {error}" if str(error) else ""
        return Unreached(f"{place} cannot be reached{why}.", fix="Check that it runs, and the address.", sent=False)
    if isinstance(error, httpx.ReadTimeout):
        return Unreached(f"{place} said nothing for {timeout:g} s.", fix="Check that it is well.", quiet=True)
    return Unreached(f"{place} broke off: {type(error).__name__}.", fix="Check that it runs, and what stands before it.")
