"""Sends push notifications for tasks while the gateway is served.

Any number of processes may run a pusher. One of them claims each config; a separate task delivers its notifications in order.
Agents never wait for deliveries.
"""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import httpcore
from a2a.types import StreamResponse, TaskState
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToJson

from turnwise.access.address_guard import AddressGuard, Target, parse_target
from turnwise.facts.errors import RequestInvalid, StoreError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.sessions import visible
from turnwise.gateway.a2a.messages import PartWriter
from turnwise.gateway.a2a.request import PROTOCOL_VERSION, VERSION_HEADER, OperationRequest, TaskId
from turnwise.gateway.a2a.stream import TaskEvents
from turnwise.gateway.a2a.tasks import TaskRecord, files_of, find_task, live_task_record, task_of, update_of
from turnwise.gateway.front import Front
from turnwise.gateway.redaction import Redactor
from turnwise.ports.pushes import Push, PushConfig, Pushes as PushStore, PushPlace
from turnwise.ports.stores import Lease
from turnwise.runner import Invocation

SECONDS = 10.0
"""Timeout of one delivery, in seconds."""
CONNECT_SECONDS = 2.0
"""Timeout of connecting to one of several addresses, before the next is tried."""
READ_BYTES, ANSWER_BYTES = 4096, 65_536
"""Bytes read of a response's body, and of the whole response. The content is ignored."""
MEDIA_TYPE, TOKEN = "application/a2a+json", "X-A2A-Notification-Token"
MOST_CONCURRENT = 1_000
"""Maximum number of configs that one process serves at a time. The others wait or go to other processes."""
RETRY_PAUSES = (0.5, 2.0, 8.0)
"""Seconds before each retry."""
CLOSE_SECONDS = 2.0
"""Timeout for releasing the leases when the process ends, in seconds."""
UNSEEN = -1
"""A sequence number below all others: there is more to send."""
log = logging.getLogger("turnwise.gateway")


class PushFailed(Exception):
    """A delivery failed. The message holds no secrets."""


class PushTransport:
    """Sends each notification over a new connection, to an address that was resolved and checked for it.

    A host name may resolve differently later, so connections are not reused. Redirects are not followed, and proxies from the
    environment are not used.

    Args:
        seconds: Timeout of one delivery.
        tls: Trusted certificates; None = the system's.
    """

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS, tls: ssl.SSLContext | None = None) -> None:
        self._guard, self._seconds, self._tls = guard, seconds, tls

    async def deliver(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Posts one notification and returns once it is accepted. Raises PushFailed."""
        try:
            async with asyncio.timeout(self._seconds):
                target = parse_target(url)
                status = await self._post(target, await self._guard.addresses(target), headers, body)
        except TimeoutError:
            raise PushFailed(f"it took longer than {self._seconds:g} seconds") from None
        except RequestInvalid as problem:
            raise PushFailed(problem.problem) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as problem:
            raise PushFailed(f"it could not be sent ({type(problem).__name__})") from None
        if not 200 <= status < 300:
            raise PushFailed(f"the answer was {status}")

    async def _post(self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
        """Returns the response's status."""
        host = target.host.encode()
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(target.scheme.encode(), host, target.port),
            ssl_context=self._context() if target.scheme == "https" else None,
            network_backend=_PinnedBackend(addresses),
        )
        url = httpcore.URL(scheme=target.scheme.encode(), host=host, port=target.port, target=target.path.encode())
        sent = {"Host": target.authority, **headers, "Content-Length": str(len(body)), "Connection": "close"}
        try:
            response = await connection.handle_async_request(
                httpcore.Request("POST", url, headers=list(sent.items()), content=body)
            )
            try:
                await _read_some(response)
            finally:
                await response.aclose()
            return response.status
        finally:
            await connection.aclose()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the given addresses in turn and ignores the host. Certificates are still verified for the host's name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses, self._network = addresses, httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first of the checked addresses that answers, instead of resolving the host again."""
        *others, last = self._addresses
        for address in others:
            try:
                return _BoundedStream(
                    await self._network.connect_tcp(address, port, CONNECT_SECONDS, local_address, socket_options)
                )
            except (httpcore.NetworkError, httpcore.TimeoutException):
                continue
        return _BoundedStream(await self._network.connect_tcp(last, port, timeout, local_address, socket_options))


class _BoundedStream(httpcore.AsyncNetworkStream):
    """A connection that reads at most `ANSWER_BYTES`, because response headers have no limit otherwise."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, ANSWER_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise httpcore.ReadError("The answer is too long.")
        data = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _read_some(response: httpcore.Response) -> None:
    read = 0
    async for chunk in response.aiter_stream():
        read += len(chunk)
        if read >= READ_BYTES:
            return


class TaskUpdate(NamedTuple):
    """Notifications to send."""

    messages: Sequence[StreamResponse]
    sequence: int
    """Every event up to this sequence number is covered once they are sent."""


async def task_updates(
    front: Front, operation: OperationRequest, name: TaskId, invocation: Invocation, *, after: int
) -> AsyncIterator[TaskUpdate]:
    """Yields the notifications for events after a sequence number, then the final status unless the task is working."""
    reader, events, sequence = _UpdateReader(front, operation, name), list[Event](), after
    async for event in invocation.events():
        if event.partial:
            continue
        events.append(event)
        before, sequence = sequence, max(sequence, event.sequence or 0)
        # Report the previous number: the last event is covered only once the final status is sent.
        if sequence > after and (messages := await reader.of(event, events)):
            yield TaskUpdate(messages, before)
    if sequence > after:
        record = live_task_record(name, events, begun=True, closed=True)
        # A task that waits for somebody else, or just continued, is working, which was sent with its message.
        final = [] if record.state(operation.view) == TaskState.TASK_STATE_WORKING else [await reader.status(record)]
        yield TaskUpdate(final, sequence)


async def last_update(front: Front, operation: OperationRequest, name: TaskId) -> TaskUpdate | None:
    """Returns the status of a task that ended before its invocation began; None if there is no such task."""
    try:
        record = await find_task(operation, name.id, to="messages:write")
    except A2AError:
        return None
    return TaskUpdate([await _UpdateReader(front, operation, name).status(record)], 0)


class _UpdateReader:
    """Converts events to the protocol's notifications."""

    def __init__(self, front: Front, operation: OperationRequest, name: TaskId) -> None:
        self._front, self._operation, self._name = front, operation, name
        self._task_events = TaskEvents(name)

    async def of(self, event: Event, events: Sequence[Event]) -> list[StreamResponse]:
        """Returns the notifications for the last of these events."""
        if event.actions.rewind is not None:  # the output of an attempt whose process died is retracted
            record = live_task_record(self._name, events, begun=True, closed=False)
            return [StreamResponse(task=task_of(record, self._operation.view, await self._part_writer(record.events)))]
        if event.author == USER:
            return [await self.status(TaskRecord(self._name, "running", events))] if event.content else []
        writer = await self._part_writer([event])
        return [StreamResponse(artifact_update=update) for update in self._task_events.whole(event, writer.of(event))]

    async def status(self, record: TaskRecord) -> StreamResponse:
        """Returns a status notification."""
        return StreamResponse(status_update=update_of(record, self._operation.view, await self._part_writer(record.events)))

    async def _part_writer(self, events: Sequence[Event]) -> PartWriter:
        return PartWriter(self._operation.view, await files_of(self._operation, self._name, events))


@asynccontextmanager
async def running_pusher(
    front: Front, transport: PushTransport | None = None, pauses: Sequence[float] = RETRY_PAUSES
) -> AsyncIterator[None]:
    """Runs the pusher while the context is entered. transport: None = as configured."""
    store = front.state.push_feed.kept
    if store is None:
        yield
        return
    private = front.config.protocols.a2a.private_pushes
    pusher = Pusher(front, store, transport or PushTransport(AddressGuard(private=private)), pauses)
    work = asyncio.create_task(pusher.run())
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await pusher.close()


class Pusher:
    """Claims configs that have something to send, and serves each until its task is over or waits."""

    def __init__(self, front: Front, store: PushStore, transport: PushTransport, pauses: Sequence[float]) -> None:
        self._front, self._store = front, store
        self._stream = PushStream(front, store, transport, pauses)
        process = front.runner.process
        self._lease = Lease(SystemIssuer().new_id("pusher"), process.lease_seconds)
        self._poll_seconds = process.recovery_seconds
        self._running: dict[PushPlace, asyncio.Task[None]] = {}
        self._checked = 0.0

    async def run(self) -> None:
        """Claims and serves until cancelled. Survives an unavailable store and unreadable entries."""
        is_reachable, news = True, self._front.state.push_feed.news
        while True:
            news.clear()
            try:
                await self._round()
                is_reachable = True
            except Exception as problem:
                if is_reachable:
                    is_ours = not isinstance(problem, TurnwiseError)
                    log.warning("Push notification configs cannot be read: %s", problem, exc_info=is_ours)
                is_reachable = False
            # Jitter, so that processes do not poll at the same moment.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds * random.uniform(0.8, 1.2)):
                    await news.wait()

    async def close(self) -> None:
        """Cancels deliveries and releases the leases, so another process continues at once."""
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        with suppress(TurnwiseError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*running, return_exceptions=True)
                if running:
                    await self._store.give_up(self._lease.holder)

    async def _round(self) -> None:
        """Checks the claims, then claims due notifications and starts a task for each, as far as there is room."""
        await self._check_claims()
        room = MOST_CONCURRENT - len(self._running)
        if room <= 0 or self._front.closing.is_set():
            return
        for push in await self._store.claim(self._front.runner.app, self._lease, limit=room):
            if (before := self._running.get(push.place)) is not None:
                # The config was replaced meanwhile.
                before.cancel()
                await asyncio.wait([before])
            task = self._running[push.place] = asyncio.create_task(self._serve(push))
            task.add_done_callback(partial(self._done, push.place))

    async def _check_claims(self) -> None:
        """Compares the running tasks with the store, three times per lease: cancels lost ones, releases unknown claims."""
        now = time.monotonic()
        if not self._running or now - self._checked < self._lease.seconds / 3:
            return
        self._checked, running = now, set(self._running)
        held = await self._store.held(self._lease.holder)
        for place in running - set(held):
            if place in self._running:
                self._running[place].cancel()
        for place in set(held) - running - set(self._running):
            # Claimed by a call whose result was lost.
            await self._store.leave(place, self._lease.holder, seen=UNSEEN)

    async def _serve(self, push: Push) -> None:
        """Sends one task's notifications, then releases the claim. After a problem, waits for the length of a lease first."""
        seen: int | None = UNSEEN
        try:
            seen = await self._stream.send(push, self._lease.holder)
        except Exception as problem:
            # Pause before the next attempt; log the traceback of a defect.
            log.warning("A push notification is delayed: %s", problem, exc_info=not isinstance(problem, TurnwiseError))
            await asyncio.sleep(self._lease.seconds)
        with suppress(StoreError):
            await self._store.leave(push.place, self._lease.holder, seen=seen)

    def _done(self, place: PushPlace, task: "asyncio.Task[None]") -> None:
        if self._running.get(place) is task:
            del self._running[place]


class PushStream:
    """Delivers the notifications of one config in log order, at least once."""

    def __init__(self, front: Front, store: PushStore, transport: PushTransport, pauses: Sequence[float]) -> None:
        self._front, self._store, self._transport, self._pauses = front, store, transport, pauses

    async def send(self, push: Push, holder: str) -> int | None:
        """Sends what is due and returns when nothing more comes for now.

        Returns:
            The sequence number after which there is more to send; None if the config is finished. Errors of the runner and the
                store pass through.
        """
        place, caller = push.place, push.config.caller
        if not await self._is_authorized(push.config):
            return None
        user = place.key.user
        name = TaskId(place.key.id, place.message_id, None if user == caller.user else user)
        operation = OperationRequest(self._front.services(caller), Redactor(caller, self._front.runner.tree), push.config.base)
        followed = await self._front.state.push_feed.follow(place)
        if followed is None:
            if (last := await last_update(self._front, operation, name)) is not None:
                await self._deliver_all(push.config, last)
            return None
        accepted = True
        async for update in task_updates(self._front, operation, name, followed.invocation, after=push.told):
            if not await self._is_authorized(push.config):
                return None
            accepted = await self._deliver_all(push.config, update, retry=accepted)
            if not await self._store.tell(place, holder, update.sequence):
                return UNSEEN  # the lease is lost
        is_over = any(event.actions.end for event in visible(followed.invocation.feed.stored))
        is_open = followed.invocation.id in followed.session.head.invocations
        return followed.session.last_sequence if is_open and not is_over else None

    async def _is_authorized(self, config: PushConfig) -> bool:
        if await self._front.state.push_feed.is_still_authorized(config.caller):
            return True
        log.warning("Push notifications to %s are stopped: the API key that set them up is no longer valid.", _host(config))
        return False

    async def _deliver_all(self, config: PushConfig, update: TaskUpdate, *, retry: bool = True) -> bool:
        """Delivers the notifications of one update; gives up on one after its retries.

        Args:
            retry: Whether to retry. False after a delivery was given up, until one succeeds.

        Returns:
            Whether the last delivery succeeded.
        """
        for body in map(_encode, update.messages):
            retry = await self._deliver(config, body, self._pauses if retry else ())
        return retry

    async def _deliver(self, config: PushConfig, body: bytes, pauses: Sequence[float]) -> bool:
        """Posts one notification, and again after each pause. Returns whether it was delivered."""
        for pause in (*pauses, None):
            try:
                await self._transport.deliver(config.url, _headers(config), body)
                return True
            except PushFailed as problem:
                if pause is None:
                    log.warning("A push notification to %s was given up: %s.", _host(config), problem)
                    return False
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        return False


def _encode(message: StreamResponse) -> bytes:
    text: str = MessageToJson(message, indent=None)
    return text.encode()


def _headers(config: PushConfig) -> Mapping[str, str]:
    """Returns the headers of a notification, with the token and the credentials of its config."""
    headers = {"Content-Type": MEDIA_TYPE, VERSION_HEADER: PROTOCOL_VERSION, "User-Agent": "turnwise"}
    if config.token:
        headers[TOKEN] = config.token
    if config.scheme:
        headers["Authorization"] = f"{config.scheme} {config.credentials}".strip()
    return headers


def _host(config: PushConfig) -> str:
    """Returns the part of the URL that is safe to log."""
    return parse_target(config.url).host
