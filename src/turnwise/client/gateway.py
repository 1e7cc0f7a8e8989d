"""One gateway as the client asks it: with its credential, in its words, and again when that is safe."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from copy import copy
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from turnwise.client.errors import media_type, problem_in, strange
from turnwise.client.request import Asked
from turnwise.client.retry import PASSING, Patience, Unreached, was_refused
from turnwise.facts.errors import RequestInvalid

if TYPE_CHECKING:
    import httpx
from ipaddress import ip_address
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError

_Kept = tuple["httpx.AsyncClient", AsyncGenerator[None, None]]


class Connections:
    """Made at their first use; each is closed when its loop shuts down, if nobody did before. heard: whether anybody ever
    answered.
    """

    heard = False

    def __init__(self, make: "Callable[[], httpx.AsyncClient]") -> None:
        self._make, self._lock = make, threading.Lock()
        self._kept: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = weakref.WeakKeyDictionary()

    async def here(self) -> "httpx.AsyncClient":
        """That of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            http = self._make()
            keeper = self._keeping(loop, http)
            with self._lock:
                self._kept[loop] = kept = (http, keeper)
            await anext(keeper)
        return kept[0]

    async def close(self) -> None:
        """Closes that of the running loop. Idempotent; the next use makes another."""
        if kept := self._taken(asyncio.get_running_loop()):
            await kept[1].aclose()

    async def _keeping(self, loop: asyncio.AbstractEventLoop, http: "httpx.AsyncClient") -> AsyncGenerator[None, None]:
        # A loop that shuts down closes its unfinished generators: that is the last moment in which connections can be closed.
        try:
            yield
        finally:
            self._taken(loop)
            await http.aclose()

    def _taken(self, loop: asyncio.AbstractEventLoop) -> _Kept | None:
        with self._lock:
            return self._kept.pop(loop, None)


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


def checked_url(url: str) -> str:
    """The address without a slash at its end. ConfigError for what is no address of a server."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        sound = False
    if not sound:
        shown = "What was given" if "@" in url else repr(url)  # there may be a password in front of it
        raise ConfigError(f"{shown} is no address of a gateway.", fix='Write it as "http://127.0.0.1:8000".')
    return url.strip().rstrip("/")


def is_this_machine(url: str) -> bool:
    """Whether the address never leaves this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def checked_key(key: str | None) -> str | None:
    """The key without space around it, as files have it. ConfigError for one that cannot be sent."""
    if key is None:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("The key is empty, or has characters that no key has.", fix="Pass it as `turnwise keys` showed it.")
    return key
