"""Calls a Restate server: wake-ups through its ingress, versions and deployments through its admin API.

The HTTP/1.1 client keeps its connections. A request is one write, which matters at thousands of wake-ups.
"""

import asyncio
import hashlib
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

from turnwise.facts.errors import EngineError, MissingExtra
from turnwise.facts.sessions import SessionKey

_ODD = re.compile(r"[^A-Za-z0-9_-]+")

INGRESS_PORT, ADMIN_PORT = 8080, 9070
LOWEST, TESTED = (1, 5), "1.7"
"""The lowest version with retry policies of services, and the version of the tests."""
HANDLER = "workOff"
_FORM = "restate://HOST[:PORT][?admin=PORT]"

CONNECT_SECONDS, SECONDS = 3.0, 10.0
IDLE_SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024
"""The size of the largest answer that is read."""


class Unreachable(EngineError):
    """Nobody answers at the engine's address. May pass."""


@dataclass(frozen=True, slots=True)
class RestateAddress:
    """The address of a Restate server."""

    ingress: str
    """The URL of its ingress."""
    admin: str
    """The URL of its admin API."""

    @classmethod
    def parse(cls, text: str) -> "RestateAddress":
        """Reads `restate://HOST[:PORT][?admin=PORT]`; `restates://` means TLS. Raises EngineError."""
        try:
            parts = urlsplit(text)
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
            port, admin = parts.port or INGRESS_PORT, int(options.pop("admin", [str(ADMIN_PORT)])[0])
            if not 0 < admin < 2**16:
                raise ValueError
        except ValueError:
            parts, options, port, admin = urlsplit(""), {}, 0, 0
        if parts.scheme not in ("restate", "restates") or not parts.hostname or parts.path not in ("", "/") or options:
            raise EngineError(f"{text!r} is no address of an engine.", fix=f"Write it as {_FORM}.")
        if parts.username or parts.password:
            raise EngineError("The address of the engine holds a user or a password.", fix=f"Write it as {_FORM}.")
        scheme = "https" if parts.scheme == "restates" else "http"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(f"{scheme}://{host}:{port}", f"{scheme}://{host}:{admin}")


class RestateClient:
    """A client of one Restate server. For one event loop."""

    def __init__(self, address: RestateAddress) -> None:
        self._ingress, self._admin = HttpClient(address.ingress), HttpClient(address.admin)

    @classmethod
    def at(cls, address: str) -> "RestateClient":
        """Returns a client of the server at `restate://HOST[:PORT][?admin=PORT]`. Raises EngineError."""
        return cls(RestateAddress.parse(address))

    async def send(self, service: str, key: str, number: int, at: datetime | None = None) -> None:
        """Asks for a call of the session's handler, now or at a time. Pending calls with the same number are one call.

        Raises EngineError.
        """
        target = f"/{quote(service)}/{quote(key, safe='')}/{HANDLER}/send"
        once = str(number)
        if at is not None:
            milliseconds = max(0, int((at - datetime.now(UTC)).total_seconds() * 1000))
            target, once = f"{target}?delay={milliseconds}ms", f"at {at.isoformat()}"
        await _call(self._ingress, "POST", target, number, {"idempotency-key": once})

    async def check(self) -> str:
        """Returns the server's version. Raises EngineError if it cannot be reached or is too old."""
        answer = await _call(self._admin, "GET", "/version")
        version = str(answer.get("version", ""))
        found = re.match(r"(\d+)\.(\d+)", version)
        if found is None:
            raise EngineError(f"{self._admin.url} is no Restate server.", fix="Name its admin port with ?admin=PORT.")
        if not LOWEST <= (int(found[1]), int(found[2])) < (2, 0):
            raise EngineError(
                f"The Restate server at {self._admin.url} has version {version}; 1.5 or later is needed, and below 2.",
                fix=f"Run version {TESTED}.",
            )
        return version

    async def is_registered(self, service: str) -> bool:
        """Returns whether some worker serves the service. Raises EngineError."""
        return bool(await _call(self._admin, "GET", f"/services/{quote(service)}", missing={}))

    async def register(self, worker_url: str) -> None:
        """Registers the workers at that URL. Repeatable. Raises EngineError."""
        # Nothing of a handler is in the engine's journal, so another version at the same URL may finish a call.
        body = {"uri": worker_url, "use_http_11": True, "force": True}
        await _call(self._admin, "POST", "/deployments", body)

    async def close(self) -> None:
        """Closes the connections."""
        await self._ingress.close()
        await self._admin.close()


def service_of(app: str) -> str:
    """Returns the name of the app's virtual object: `turnwise.APP`. A letter that Restate refuses becomes `_`."""
    plain = _ODD.sub("_", app)
    if plain != app:
        plain = f"{plain}-{hashlib.sha256(app.encode()).hexdigest()[:8]}"
    return f"turnwise.{plain}"


def object_of(key: SessionKey) -> str:
    """Returns the key of the session's object: `USER/SESSION`, each quoted as in a URL."""
    return f"{quote(key.user, safe=' @:')}/{quote(key.id, safe=' @:')}"


def session_of(app: str, name: str) -> SessionKey:
    """Returns the session that `object_of` named."""
    user, _, session = name.partition("/")
    return SessionKey(app, unquote(user), unquote(session))


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


async def _call(
    server: HttpClient,
    method: str,
    target: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    missing: Any = None,
) -> dict[str, Any]:
    """Returns the JSON object of the answer, or `missing` for the status 404. Raises EngineError."""
    content = None if body is None else json.dumps(body).encode()
    try:
        status, answer = await server.request(method, target, content, headers)
    except NoAnswer as problem:
        raise Unreachable(
            f"The engine at {server.url} cannot be reached: {problem}.", fix="Start it, or correct the address."
        ) from None
    if status == 404 and missing is not None:
        return dict(missing)
    return _answer_of(status, answer, target)


def _answer_of(status: int, content: bytes, target: str) -> dict[str, Any]:
    """Returns the JSON object of a response. Raises EngineError."""
    try:
        answer = json.loads(content or b"{}")
    except ValueError:
        answer = {}
    if not 200 <= status < 300:
        said = answer.get("message") if isinstance(answer, dict) else None
        why = str(said or f"status {status}").partition("\n")[0][:500]
        raise EngineError(f"The engine refuses {urlsplit(target).path}: {why.rstrip('.')}.", fix="See docs/engines.md.")
    return answer if isinstance(answer, dict) else {}
