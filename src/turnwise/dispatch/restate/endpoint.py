"""The worker's HTTP endpoint: Restate calls it to have a session worked off."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from turnwise.dispatch.restate.client import HANDLER
from turnwise.dispatch.restate.naming import session_of
from turnwise.facts.errors import EngineError, MissingExtra
from turnwise.ports.dispatcher import WorkOff

ABORT = timedelta(seconds=60)
"""After this time, the engine asks another worker. That one finds the session held, and answers at once."""
RETRY_FIRST, RETRY_LONGEST, ATTEMPTS = timedelta(milliseconds=100), timedelta(seconds=1), 60
"""The engine's pauses between two tries of a call. After the last try it forgets the call; the session is announced again."""
CALLS = 200
END_SECONDS = 1.0
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")

_App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where a worker listens for the engine's calls.

    Raises:
        EngineError: Other machines can reach the address, and no key is given.
    """

    host: str = "127.0.0.1"
    port: int = 9080
    url: str = ""
    """The URL at which the engine reaches the workers, such as that of a load balancer; empty for host and port."""
    keys: tuple[str, ...] = ()
    """The public keys of the engine (`publickeyv1_…`). With them, a call without its signature is refused."""

    def __post_init__(self) -> None:
        if not self.keys and self.host not in LOCAL_HOSTS:
            raise EngineError(
                f"Other machines can reach {self.host}:{self.port}, and no key of the engine is given.",
                fix="Pass the engine's public key with --engine-key, or listen on 127.0.0.1.",
            )
        if wrong := [key for key in self.keys if not key.startswith("publickeyv1_")]:
            raise EngineError(
                f"{wrong[0][:20]!r} is no public key of a Restate server.", fix="Copy the `kid` from the server's log."
            )


class Endpoint:
    """Serves the handler at an address. For one event loop.

    Args:
        most: The number of calls at a time; further ones are refused, and the engine tries another worker.
    """

    def __init__(self, service: str, app: str, address: WorkerAddress, work_off: WorkOff, most: int = CALLS) -> None:
        self._address = address
        self._handler = _Bounded(_handler_app(service, app, work_off, address.keys), most)
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None
        self.url = address.url

    async def start(self) -> None:
        """Returns when it accepts calls. Raises EngineError if the address is in use."""
        listening = _listening(self._address)
        _leave_signals_alone()
        self._server = _server(self._handler)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        await self._server.up.wait()
        host, port = listening.getsockname()[:2]
        self.url = self.url or (f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def end(self) -> None:
        """Refuses further calls, and returns when those that are done have been answered. Idempotent."""
        if self._task is None:
            return
        self._server.should_exit = True
        _, late = await asyncio.wait({self._task}, timeout=END_SECONDS)
        if late:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            await self._task
        self._task = None


class _Bounded:
    """An ASGI app that answers 503 when too many calls are pending."""

    def __init__(self, app: _App, most: int) -> None:
        self._app, self._most, self._pending = app, most, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._pending >= self._most:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"1")]})
            await send({"type": "http.response.body", "body": b""})
            return
        self._pending += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._pending -= 1


def _handler_app(service: str, app: str, work_off: WorkOff, keys: Sequence[str]) -> _App:
    """Returns the ASGI app with the virtual object of an app's sessions."""
    try:
        import restate
    except ImportError:
        raise MissingExtra("Restate", "restate") from None

    retries = restate.InvocationRetryPolicy(RETRY_FIRST, 2.0, RETRY_LONGEST, ATTEMPTS, "kill")
    session = restate.VirtualObject(
        service,
        description=f"Works off the sessions of the app {app}.",
        abort_timeout=ABORT,
        journal_retention=timedelta(0),
        idempotency_retention=timedelta(0),
        state_preload=False,
        invocation_retry_policy=retries,
    )

    # The whole handler is one durable step: it returns nothing, and may be repeated.
    @session.handler(HANDLER)
    async def work(context: restate.ObjectContext, number: int) -> None:
        try:
            # The work goes on when the engine gives up the call.
            await asyncio.shield(asyncio.ensure_future(work_off(session_of(app, context.key()), number)))
        except Exception:
            logging.getLogger("turnwise.dispatch").exception("Session %s was not worked off.", context.key())
            # The engine stores the error, so it has no details.
            raise RuntimeError("The session was not worked off; the worker's log says why.") from None

    served: _App = restate.app([session], "request_response", list(keys))
    return served


def _listening(address: WorkerAddress) -> socket.socket:
    """Returns a listening socket that workers on the same machine may share."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(found[4][:2], family=found[0], reuse_port=hasattr(socket, "SO_REUSEPORT"))
    except OSError as problem:
        raise EngineError(
            f"A worker cannot listen at {address.host}:{address.port}: {problem.strerror or problem}.",
            fix="Choose another address with --listen.",
        ) from None


def _server(app: _App) -> Any:
    """Returns a uvicorn server that leaves signals to its owner. Raises MissingExtra."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("Restate", "restate") from None

    class Server(uvicorn.Server):
        """A server that leaves signals to its owner. `up` is set when it accepts connections."""

        up = asyncio.Event()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            self.up.set()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    # A connection for each call: one that is kept would bind the engine to one of several workers at an address.
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("connection", "close")],
    )
    return Server(config)


def _leave_signals_alone() -> None:
    """Keeps the SDK from replacing this process's handler of SIGTERM by one of its own, which does not end the process."""
    from restate import server

    hooks = getattr(server, "_shutdown_hooks", None)
    if hooks is not None:
        hooks.setdefault(asyncio.get_running_loop(), {}).setdefault(signal.SIGTERM, [])
