"""Runs the gateway with uvicorn in the current event loop: the server, which its owner starts and stops, and connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from turnwise.config.definition_editor import DefinitionEditor
from turnwise.config.gateway_entries import access_control, gateway_problems
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.front import Front, front
from turnwise.runner import Runner
from turnwise.telemetry.metrics import Metrics

BACKLOG = 2048
IDLE_SECONDS = 75
"""Timeout of idle connections. It is longer than that of common proxies, so that they do not send into a closing connection."""

END_SECONDS, CUT_SECONDS = 5.0, 1.0
"""Shutdown timeouts in seconds: for pending responses to finish, and for cut ones to send their last bytes."""


HEAD_BYTES = 64 * 1024
"""The maximum size of a request's URL and headers together."""
PACE_BYTES = 64 * 1024
"""How much of a waiting response a client has to read within `stalled_seconds`, if so much waits."""


def default_most_connections() -> int | None:
    """Returns four fifths of the files that this process may open; None if it may open any number.

    The others are for the store and for outgoing calls.
    """
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return None
    files = getrlimit(RLIMIT_NOFILE)[0]
    return None if files == RLIM_INFINITY else max(files * 4 // 5, 1)


class Configuration(uvicorn.Config):
    """uvicorn's configuration, with the number of connections that may be open at once; None means any number."""

    most_connections: int | None = None


class Connection(HttpToolsProtocol):
    """Rejects oversized request heads with 431, and closes slow or stalled connections.

    When as many connections are open as may be, a new one takes the place of the one that has been idle for longest. If none
    is idle, its request is answered with 503.
    """

    head_seconds, linger_seconds, stalled_seconds = 30.0, 5.0, 20.0
    """Timeouts in seconds.

    `head_seconds`: for the first byte on a new connection, and for a request's head. `linger_seconds`: for the rest
    of a rejected body, which is read so that a client that is still sending can see the response. `stalled_seconds`:
    time in which a client has to read `PACE_BYTES` of a pending response, or the rest of it; otherwise the connection is
    cut. A stream can be resumed later.
    """
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._most = config.most_connections if isinstance(config, Configuration) else None
        self._idle_since = self.loop.time()
        self._served_app = self.app

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection. Above the limit, it closes the one that has been idle for longest."""
        super().connection_made(transport)
        if self._is_over_limit():
            idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle]
            if len(idle) > 1:
                min(idle, key=lambda other: other._idle_since).transport.abort()
        self._set_timeout(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timeout(None)
        self._watch_progress(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_progress(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._watch_progress(None)
        super().resume_writing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._set_timeout(self.head_seconds)

    def on_url(self, url: bytes) -> None:
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value))
        # The parser keeps whitespace after a value, which is not part of it (RFC 9110, 5.5).
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._set_timeout(None)
        self.app = _overloaded if self._is_over_limit() else self._served_app
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._set_timeout(None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._idle_since = self.loop.time()
        if self.cycle.response_complete and self.cycle.more_body:
            self._set_timeout(self.linger_seconds)

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes <= HEAD_BYTES:
            super().send_400_response(msg)
            return
        self.transport.write(STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or (self.cycle.response_complete and not self.pipeline)

    def _is_over_limit(self) -> bool:
        if self._most is None or len(self.connections) <= self._most:
            return False
        return sum(not other.transport.is_closing() for other in self.connections) > self._most

    def _measure(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            raise ValueError  # stops the parser, which then calls `send_400_response`

    def _set_timeout(self, seconds: float | None) -> None:
        """Closes the connection after this many seconds, unless it is called again before. None cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _watch_progress(self, left: int | None) -> None:
        """Cuts the connection if `left` bytes do not shrink by `PACE_BYTES` within `stalled_seconds`. None stops watching."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self._stall_timer = None if left is None else self.loop.call_later(self.stalled_seconds, self._check_progress, left)

    def _check_progress(self, left: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now <= max(left - PACE_BYTES, 0):
            self._watch_progress(now)
        else:
            self.transport.abort()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


async def _overloaded(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers that this process has no room for another request."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", b"1"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"Too many connections are open at this process. Try again."})


def front_for(
    runner: Runner,
    config: GatewayConfig,
    metrics: Metrics | None = None,
    *,
    traced: bool = False,
    editor: DefinitionEditor | None = None,
) -> Front:
    """Returns the front of an app with authentication and quotas. Has to be called inside an event loop.

    Args:
        runner: The app's runner.
        config: The gateway's settings.
        metrics: None = no metrics.
        traced: Whether requests continue the traces that they name.
        editor: Changes the app's definitions (`App.editor`). None = the API has none.

    Raises:
        ConfigError: The configuration is invalid.
    """
    for _, mistake in gateway_problems(config):
        raise mistake
    authenticator, quotas = access_control(runner.app, config, runner.store)
    return front(runner, config, authenticator, quotas, metrics, traced=traced, editor=editor)


def bound_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Port 0 picks a free port.

    Raises:
        ConfigError: The address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        family, address = found[0], found[4]
        both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
        # Connections inherit this. Otherwise a response's body waits 40 ms for the client to acknowledge its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as problem:
        why = (problem.strerror or str(problem)).partition(" (while")[0]  # the message below has the address
        raise ConfigError(
            f"It cannot listen at {host}, port {port}: {why}.",
            fix="Choose another with --host and --port, or stop the program that uses it.",
        ) from None


class Serving:
    """A gateway that listens at a socket. For one event loop; it can be started once."""

    def __init__(self, front: Front, at: socket.socket, connection: type[Connection] = Connection) -> None:
        self.front = front
        self._socket, self._app = at, gateway(front)
        self._host, self._port = at.getsockname()[:2]
        self._uvicorn = UvicornServer(_configuration(self._app, front.config, connection))
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The gateway's URL."""
        return url_of(self._host, self._port)

    @property
    def address_here(self) -> str:
        """The gateway's URL for clients on this machine."""
        return url_of({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host), self._port)

    async def begin(self) -> None:
        """Starts the server, and returns when it accepts connections."""
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        up = asyncio.create_task(self._uvicorn.up.wait())
        await asyncio.wait({self._task, up}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()

    async def end(self, seconds: float = END_SECONDS) -> None:
        """Stops the server, and returns when pending requests are answered.

        After `seconds`, pending requests are cut short with an error that tells the client to retry. Connections that
        still do not end are closed.
        """
        self.front.closing.set()
        self._uvicorn.should_exit = True
        if self._task is None:
            self._socket.close()
            return
        _, late = await asyncio.wait({self._task}, timeout=seconds)
        if late:
            self._app.state.pending.cut_short()
            _, late = await asyncio.wait({self._task}, timeout=CUT_SECONDS)
        if late:
            for connection in list(self._uvicorn.server_state.connections):
                connection.transport.abort()
        await self._task


@asynccontextmanager
async def serving(
    front: Front, host: str = "127.0.0.1", port: int = 0, connection: type[Connection] = Connection
) -> AsyncIterator[Serving]:
    """Serves the front at an address while the context is entered."""
    served = Serving(front, bound_socket(host, port), connection)
    await served.begin()
    try:
        yield served
    finally:
        await served.end()


class UvicornServer(uvicorn.Server):
    """A server that leaves signals to its owner. `up` is set when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.lifespan.should_exit:
            raise RuntimeError("A background task of the gateway could not start; see the log.")
        self.up.set()


def _configuration(app: FastAPI, config: GatewayConfig, connection: type[Connection]) -> uvicorn.Config:
    """Returns uvicorn's configuration: our connection class, limits and proxies, and no logs by uvicorn."""
    configuration = Configuration(
        app,
        http=connection,
        ws="websockets-sansio",
        ws_max_size=config.body_bytes,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=list(config.trusted_proxies),
        timeout_keep_alive=IDLE_SECONDS,
        backlog=BACKLOG,
        reset_contextvars=True,
    )
    configuration.most_connections = config.connections or default_most_connections()
    return configuration


def url_of(host: str, port: int) -> str:
    """Returns the URL of a server at that address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
