"""Announces sessions to a Restate server, and works them off when it calls."""

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import NamedTuple

from turnwise.dispatch.restate.client import RestateAddress, RestateClient, Unreachable
from turnwise.dispatch.restate.endpoint import CALLS, Endpoint, WorkerAddress
from turnwise.dispatch.restate.naming import object_of, service_of
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
