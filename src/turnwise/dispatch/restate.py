"""The Restate dispatcher: announces sessions to a Restate server, and works them off when it calls this process's endpoint."""

import asyncio
import logging
import random
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, NamedTuple

from turnwise.dispatch.restate_client import (
    HANDLER,
    RestateAddress,
    RestateClient,
    Unreachable,
    object_of,
    service_of,
    session_of,
)
from turnwise.facts.errors import EngineError, MissingExtra
from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import WorkOff

SENDERS = 2
"""The number of wake-ups sent at once."""
PENDING = 10_000
"""The number of wake-ups that wait to be sent. Further ones are dropped: the session stays due, and is announced again."""
REGISTER_SECONDS = 3.0
"""How often a worker checks that the engine still knows it."""
RETRY_SECONDS = 0.5
"""The pause before a worker tries again to register at an engine that cannot be reached."""
CLOSE_SECONDS = 2.0

log = logging.getLogger("turnwise.dispatch")

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


@dataclass(frozen=True, slots=True)
class RestateEngine:
    """A Restate server that schedules the work of an app. `dispatcher` is for `Runner(dispatcher=…)`.

    Raises:
        EngineError: The address is invalid.
    """

    address: str
    """`restate://HOST[:PORT][?admin=PORT]`."""
    app: str
    worker: WorkerAddress | None = None
    """Where this process listens for the engine's calls; None means that it only announces sessions."""
    calls: int = CALLS
    """The number of calls that this process takes at a time."""

    def __post_init__(self) -> None:
        RestateAddress.parse(self.address)

    def dispatcher(self, work_off: WorkOff) -> "RestateDispatcher":
        """Makes the dispatcher of one event loop. Raises MissingExtra."""
        client, service = RestateClient.at(self.address), service_of(self.app)
        endpoint = None
        if self.worker is not None:
            endpoint = Endpoint(service, self.app, self.worker, work_off, self.calls)
        return RestateDispatcher(client, service, endpoint)

    async def check(self) -> str:
        """Returns the server's version. Raises EngineError if the server cannot be reached or used, MissingExtra."""
        client = RestateClient.at(self.address)
        try:
            return await client.check()
        finally:
            await client.close()

    async def problem(self) -> str | None:
        """Returns why the engine calls no worker of the app; None if it can. Raises MissingExtra."""
        client = RestateClient.at(self.address)
        try:
            await client.check()
            if not await client.is_registered(service_of(self.app)):
                return f"No worker of app {self.app!r} has registered at the engine. Start `turnwise worker --engine`."
        except EngineError as problem:
            return str(problem)
        finally:
            await client.close()
        return None


def require_restate() -> None:
    """Raises MissingExtra if a library of the extra is not installed."""
    if any(find_spec(module) is None for module in ("restate", "httptools", "uvicorn")):
        raise MissingExtra("Restate", "restate")


class _WakeUp(NamedTuple):
    key: SessionKey
    at: datetime | None


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


class RestateDispatcher:
    """Sends wake-ups in the background, and serves the engine's calls if this process is a worker.

    Wake-ups that cannot be sent are dropped, except those for a later time.
    """

    is_local = False

    def __init__(self, client: RestateClient, service: str, endpoint: Endpoint | None) -> None:
        self._client, self._service, self._endpoint = client, service, endpoint
        self._pending: dict[_WakeUp, int] = {}
        self._senders: set[asyncio.Task[None]] = set()
        self._is_failing = False

    @property
    def works_here(self) -> bool:
        return self._endpoint is not None

    def announce(self, key: SessionKey, number: int) -> None:
        """Sends the highest of the numbers that are pending for a session."""
        self._put(_WakeUp(key, None), number)

    def call_at(self, key: SessionKey, at: datetime) -> None:
        self._put(_WakeUp(key, at), 0)

    async def serve(self) -> None:
        """Registers this worker, again if the engine has forgotten it, and serves calls until cancelled.

        Returns at once in a process that only announces. While the engine cannot be reached, tries again.

        Raises:
            EngineError: The engine has another version, or does not accept this worker.
        """
        if self._endpoint is None:
            return
        await self._endpoint.start()
        accepted = await self._is_accepted(self._endpoint.url)
        while not accepted:
            await asyncio.sleep(RETRY_SECONDS)
            accepted = await self._is_accepted(self._endpoint.url)
        log.info("Registered %s at the engine, as %s.", self._endpoint.url, self._service)
        while True:
            await asyncio.sleep(REGISTER_SECONDS * random.uniform(0.8, 1.2))
            with suppress(EngineError):
                if not await self._client.is_registered(self._service):
                    await self._client.register(self._endpoint.url)
                    log.warning("The engine had forgotten its workers; registered %s again.", self._endpoint.url)

    async def _is_accepted(self, url: str) -> bool:
        """Registers this worker. Returns False if the engine cannot be reached now; raises EngineError if it refuses."""
        try:
            await self._client.check()
            await self._client.register(url)
        except Unreachable as problem:
            self._warn(problem)
            return False
        return True

    def _warn(self, problem: EngineError) -> None:
        if not self._is_failing:
            log.warning("The engine does not take part; workers look for work themselves. %s", problem)
        self._is_failing = True

    async def close(self) -> None:
        """Sends what waits for a few seconds, then ends the endpoint and the connections."""
        if self._senders:
            await asyncio.wait(self._senders, timeout=CLOSE_SECONDS)
        for sender in self._senders:
            sender.cancel()
        if self._endpoint is not None:
            await self._endpoint.end()
        await self._client.close()

    def _put(self, wake_up: _WakeUp, number: int) -> None:
        """Queues a wake-up, or raises the number of one that waits already, and starts a sender if there is room."""
        if len(self._pending) < PENDING or wake_up in self._pending:
            self._pending[wake_up] = max(number, self._pending.get(wake_up, 0))
        if len(self._senders) < SENDERS:
            sender = asyncio.get_running_loop().create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    async def _send(self) -> None:
        """Sends what is pending. Stops at the first failure: the next announcement tries again."""
        while self._pending:
            wake_up = next(iter(self._pending))
            number = self._pending.pop(wake_up)
            try:
                await self._client.send(self._service, object_of(wake_up.key), number, wake_up.at)
            except EngineError as problem:
                if wake_up.at is not None:
                    self._pending[wake_up] = number
                self._warn(problem)
                return
            self._is_failing = False


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
