"""A gateway that listens: uvicorn in the running event loop, begun and ended as its owner says."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from turnwise.config.gateway_entries import access_control, gateway_problems
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.connection import Connection
from turnwise.gateway.front import Front, front
from turnwise.runner import Runner
from turnwise.telemetry.metrics import Metrics

BACKLOG = 2048
IDLE_SECONDS = 75
"""How long a connection may be idle: longer than proxies keep theirs, so that none sends into one that is being closed."""

END_SECONDS, CUT_SECONDS = 5.0, 1.0
"""How long answers may still take that nothing is computed for any more, and what is said instead of them."""


def front_for(runner: Runner, config: GatewayConfig, metrics: Metrics | None = None, *, traced: bool = False) -> Front:
    """The front of that app, with its gatekeeper and quotas. Inside an event loop. ConfigError."""
    for _, mistake in gateway_problems(config):
        raise mistake
    gatekeeper, quotas = access_control(runner.app, config, runner.store)
    return front(runner, config, gatekeeper, quotas, metrics, traced=traced)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 = any that is free. ConfigError when it cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        family, address = found[0], found[4]
        both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
        # Connections inherit it. Otherwise the body of an answer waits 40 ms until the reader has acknowledged its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as problem:
        why = (problem.strerror or str(problem)).partition(" (while")[0]  # the address is told already
        raise ConfigError(
            f"It cannot listen at {host}, port {port}: {why}.",
            fix="Choose another with --host and --port, or stop what is there.",
        ) from None


class Serving:
    """A front at a socket. For one event loop, and one time."""

    def __init__(self, front: Front, at: socket.socket, connection: type[Connection] = Connection) -> None:
        self.front = front
        self._socket, self._app = at, gateway(front)
        self._host, self._port = at.getsockname()[:2]
        self._uvicorn = _Uvicorn(_configuration(self._app, front.config, connection))
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Its URL."""
        return _url(self._host, self._port)

    @property
    def address_here(self) -> str:
        """Its URL for who is on this machine."""
        return _url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host), self._port)

    async def begin(self) -> None:
        """Returns when it accepts connections."""
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        up = asyncio.create_task(self._uvicorn.up.wait())
        await asyncio.wait({self._task, up}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()

    async def end(self, seconds: float = END_SECONDS) -> None:
        """Accepts nothing more, and returns when what came before is answered.

        After so many seconds whoever still waits is told to come again; who does not take even that is cut off.
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
    """That front at that address, as long as the context is entered."""
    served = Serving(front, bound_socket(host, port), connection)
    await served.begin()
    try:
        yield served
    finally:
        await served.end()


class _Uvicorn(uvicorn.Server):
    """Signals are its owner's; `up` is set when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.lifespan.should_exit:
            raise RuntimeError("What goes on beside the requests could not begin: the log says why.")
        self.up.set()


def _configuration(app: FastAPI, config: GatewayConfig, connection: type[Connection]) -> uvicorn.Config:
    return uvicorn.Config(
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


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
