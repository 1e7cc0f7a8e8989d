"""HTTP access to one gateway: requests as values, connections, credentials, timeouts and retries."""

import asyncio
import json
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from importlib.metadata import version
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter, ValidationError

from turnwise.client.errors import TEMPORARY, RetryBudget, Unreached, media_type, not_a_gateway, problem_in, was_refused
from turnwise.facts.errors import ConfigError, RequestInvalid
from turnwise.facts.fact import Fact

if TYPE_CHECKING:
    import httpx

NOTHING: Mapping[str, Any] = {}


class ApiRequest(NamedTuple):
    """A request to the gateway."""

    method: str
    path: str
    """The path below the API's prefix."""
    query: Mapping[str, Any] = NOTHING
    """Query parameters; None values are omitted."""
    body: Mapping[str, Any] | None = None
    """The JSON body, which may contain facts."""
    content: bytes | None = None
    """A raw body, instead of `body`."""
    headers: Mapping[str, str] = NOTHING

    def written(self) -> bytes | None:
        """Returns the body's bytes. Raises RequestInvalid if it is not JSON."""
        if self.body is None:
            return self.content
        try:
            return json.dumps(self.body, default=_plain, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(f"The request cannot be sent as JSON: {error}.", fix="Send JSON values only.") from None


def _plain(value: object) -> Any:
    if isinstance(value, Fact):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")


def get(path: str, **query: Any) -> ApiRequest:
    return ApiRequest("GET", path, query)


def post(path: str, body: Mapping[str, Any] | None = None, **query: Any) -> ApiRequest:
    return ApiRequest("POST", path, query, body)


def with_revision(asked: ApiRequest, revision: int | None) -> ApiRequest:
    """Returns the request with the condition that the session has this revision; unchanged if it is None."""
    return asked if revision is None else asked._replace(headers={**asked.headers, "If-Match": f'"{revision}"'})


def session_path(session: str, *more: str) -> str:
    """Returns the path of a session or of a resource in it; `more` is escaped already. Raises RequestInvalid for an
    invalid id.
    """
    if "/" in session or session in {"", ".", ".."}:
        raise RequestInvalid(
            f"The session id {session[:200]!r} cannot be part of a URL.", fix="Use letters, digits and dashes."
        )
    return "/".join(["/sessions", escape_path(session), *more])


def escape_path(name: str) -> str:
    """Returns the name escaped for a path. Slashes are kept; `.` and `..` are encoded so that clients do not resolve
    them.

    Raises:
        RequestInvalid: The name cannot be encoded in UTF-8.
    """
    try:
        return "/".join(_DOTS.get(part, quote(part, safe="")) for part in name.split("/"))
    except UnicodeEncodeError:
        raise RequestInvalid("A name in the URL cannot be encoded in UTF-8.", fix="Correct it.") from None


_DOTS = {".": "%2E", "..": "%2E%2E"}


_Kept = tuple["httpx.AsyncClient", AsyncGenerator[None, None]]


class Connections:
    """One HTTP client for each event loop, created at first use and closed when the loop shuts down."""

    heard = False
    """Whether the gateway has ever responded."""

    def __init__(self, make: "Callable[[], httpx.AsyncClient]") -> None:
        self._make, self._lock = make, threading.Lock()
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = weakref.WeakKeyDictionary()

    async def current(self) -> "httpx.AsyncClient":
        """Returns the HTTP client of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._clients.get(loop)
        if kept is None:
            http = self._make()
            keeper = self._close_at_shutdown(loop, http)
            with self._lock:
                self._clients[loop] = kept = (http, keeper)
            await anext(keeper)
        return kept[0]

    async def close(self) -> None:
        """Closes the HTTP client of the running loop. Idempotent; the next use creates another."""
        if kept := self._remove(asyncio.get_running_loop()):
            await kept[1].aclose()

    async def _close_at_shutdown(
        self, loop: asyncio.AbstractEventLoop, http: "httpx.AsyncClient"
    ) -> AsyncGenerator[None, None]:
        """Closes the HTTP client when its event loop ends."""
        # A loop closes unfinished generators at shutdown: the last moment at which connections can be closed.
        try:
            yield
        finally:
            self._remove(loop)
            await http.aclose()

    def _remove(self, loop: asyncio.AbstractEventLoop) -> _Kept | None:
        with self._lock:
            return self._clients.pop(loop, None)


T = TypeVar("T")
PREFIX = "/api/v1"
JSON, STREAM = "application/json", "text/event-stream"
CONNECT_SECONDS = 10.0


class Gateway:
    """Sends requests to one gateway.

    Args:
        url: The gateway's address, already checked.
        key: The API key or token, already checked; None for none.
        make: Creates an HTTP client.
        timeout: Seconds without a byte after which a connection is closed.
        patience: How many seconds temporary errors are retried.
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
        """Returns a copy that acts for this user and shares the connections."""
        other = copy(self)
        other._user = user
        return other

    def patience(self) -> RetryBudget:
        """Returns the retry budget of one operation."""
        return RetryBudget(self._patience, self._connections)

    async def ask(self, kind: type[T], asked: ApiRequest, *, repeatable: bool = True) -> T:
        """Sends a request with retries and returns its parsed response.

        Args:
            kind: The type of the response.
            asked: The request.
            repeatable: Whether the request is idempotent. Otherwise it is retried only if it certainly had no effect.
        """
        return await self._with_retries(lambda: self.ask_once(kind, asked), repeatable=repeatable)

    async def fetch(self, asked: ApiRequest, *, repeatable: bool = True) -> "httpx.Response":
        """Sends a request with retries, as `ask` does, and returns the HTTP response with its body."""
        return await self._with_retries(lambda: self._read(asked), repeatable=repeatable)

    async def ask_once(self, kind: type[T], asked: ApiRequest) -> T:
        """Sends a request once and returns its parsed response.

        Raises:
            TurnwiseError: The error that the gateway returned.
            Unreached: The gateway cannot be reached.
            NothingHere: The response does not come from a gateway.
        """
        response = await self._read(asked)
        if media_type(response) != JSON:
            raise not_a_gateway(response)
        try:
            return TypeAdapter(kind).validate_json(response.content)
        except ValidationError:
            raise not_a_gateway(response) from None

    @asynccontextmanager
    async def stream(self, asked: ApiRequest) -> "AsyncIterator[httpx.Response]":
        """Opens a stream once and yields its successful response. Raises Unreached also if the stream breaks."""
        async with self._send(asked, STREAM) as response:
            if not response.is_success:
                await response.aread()
                raise problem_in(response) or not_a_gateway(response)
            if media_type(response) != STREAM:
                raise not_a_gateway(response)
            yield response

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        await self._connections.close()

    async def _with_retries(self, work: Callable[[], Awaitable[T]], *, repeatable: bool) -> T:
        """Does the work, and again after temporary failures if that is safe and patience remains."""
        patience = self.patience()
        while True:
            try:
                return await work()
            except TEMPORARY as error:
                if not (repeatable or was_refused(error)) or not await patience.wait_for_retry(error):
                    raise

    async def _read(self, asked: ApiRequest) -> "httpx.Response":
        async with self._send(asked, JSON) as response:
            await response.aread()
        if problem := problem_in(response):
            raise problem
        return response

    @asynccontextmanager
    async def _send(self, asked: ApiRequest, accept: str) -> "AsyncIterator[httpx.Response]":
        """Sends the request and yields the response, unread. Raises Unreached."""
        import httpx

        http = await self._connections.current()
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

    def _request(self, http: "httpx.AsyncClient", asked: ApiRequest, accept: str) -> "httpx.Request":
        """Returns the HTTP request. Raises RequestInvalid for ids that no URL can hold."""
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
    """Returns the error for a gateway that cannot be reached, was silent, or broke off."""
    import httpx

    place = f"The gateway at {request.url.scheme}://{request.url.netloc.decode()}"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        why = f": {error}" if str(error) else ""
        return Unreached(f"{place} cannot be reached{why}.", fix="Check that it runs, and the address.", sent=False)
    if isinstance(error, httpx.ReadTimeout):
        return Unreached(f"{place} said nothing for {timeout:g} s.", fix="Check that it is well.", quiet=True)
    return Unreached(f"{place} broke off: {type(error).__name__}.", fix="Check that it runs, and the proxy in front of it.")


def check_url(url: str) -> str:
    """Returns the address without a trailing slash. Raises ConfigError if it is malformed."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        sound = False
    if not sound:
        shown = "What was given" if "@" in url else repr(url)  # the URL may contain a password
        raise ConfigError(f"{shown} is no address of a gateway.", fix='Write it as "http://127.0.0.1:8000".')
    return url.strip().rstrip("/")


def is_this_machine(url: str) -> bool:
    """Returns whether the address is a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def check_key(key: str | None) -> str | None:
    """Returns the key without surrounding whitespace. Raises ConfigError if it cannot be sent in a header."""
    if key is None:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("The key is empty, or contains invalid characters.", fix="Pass it as `turnwise keys` showed it.")
    return key
