"""Runs the gateway with uvicorn in the current event loop. The owner starts and stops it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from turnwise.config.definition_editor import DefinitionEditor
from turnwise.config.gateway_entries import access_control, gateway_problems
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.connection import Configuration, Connection, default_most_connections
from turnwise.gateway.front import Front, front
from turnwise.runner import Runner
from turnwise.telemetry.metrics import Metrics

BACKLOG = 2048
IDLE_SECONDS = 75
"""Timeout of idle connections. It is longer than that of common proxies, so that they do not send into a closing connection."""

END_SECONDS, CUT_SECONDS = 5.0, 1.0
"""Shutdown timeouts in seconds: for pending responses to finish, and for cut ones to send their last bytes."""


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
    """Returns uvicorn's configuration: our connection class, limits and proxies, none of its own logs."""
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
