"""Notifications, as long as the gateway is served: who is to be told is taken over, told in order, and given back.

Any number of processes may do it; each of those to be told is had by one of them. Nobody waits for it: runs do not know of
it, and each of those to be told is told by a task of his own.
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

from turnwise.facts.errors import RequestInvalid, StoreError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.pushes import PushConfig
from turnwise.facts.sessions import visible
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.a2a.lookup import files_of, find_task
from turnwise.gateway.a2a.parts import PartWriter
from turnwise.gateway.a2a.push.address_guard import AddressGuard, Target, parse_target
from turnwise.gateway.a2a.request import HEADER, SPOKEN, OperationRequest
from turnwise.gateway.a2a.stream import TaskEvents
from turnwise.gateway.a2a.task_state import TaskRecord, live_task_record
from turnwise.gateway.a2a.tasks import task_of, update_of
from turnwise.gateway.front import Front
from turnwise.gateway.redaction import Redactor
from turnwise.ports.pushes import Push, PushPlace
from turnwise.ports.pushes import Pushes as Kept
from turnwise.ports.stores import Lease
from turnwise.runner import Invocation

SECONDS = 10.0
"""How long one may take in all."""
CONNECT_SECONDS = 2.0
"""How long one of several addresses is waited for, before the next is tried."""
READ_BYTES, ANSWER_BYTES = 4096, 65_536
"""How much of an answer's body is read, and how much of all that comes: what it says is of no use."""


class PushFailed(Exception):
    """Why it did not arrive, in words that hold nothing secret."""


class PushTransport:
    """Every notification is a connection of its own, made to an address that was looked up and judged for it: names may come
    to mean something else. Redirects are not followed, and proxies that the environment names are not used.

    seconds: for all of one. tls: as what certificates are believed; None = those of this machine.
    """

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS, tls: ssl.SSLContext | None = None) -> None:
        self._guard, self._seconds, self._tls = guard, seconds, tls

    async def deliver(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Returns when it was taken. Undelivered."""
        try:
            async with asyncio.timeout(self._seconds):
                target = parse_target(url)
                status = await self._posted(target, await self._guard.addresses(target), headers, body)
        except TimeoutError:
            raise PushFailed(f"it took longer than {self._seconds:g} seconds") from None
        except RequestInvalid as problem:
            raise PushFailed(problem.problem) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as problem:
            raise PushFailed(f"it could not be sent ({type(problem).__name__})") from None
        if not 200 <= status < 300:
            raise PushFailed(f"the answer was {status}")

    async def _posted(self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer."""
        host = target.host.encode()
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(target.scheme.encode(), host, target.port),
            ssl_context=self._context() if target.scheme == "https" else None,
            network_backend=_Pinned(addresses),
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


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to these addresses, in turn, whatever the host is called. Certificates are still for the host's name."""

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
        *others, last = self._addresses
        for address in others:
            try:
                return _Bounded(await self._network.connect_tcp(address, port, CONNECT_SECONDS, local_address, socket_options))
            except (httpcore.NetworkError, httpcore.TimeoutException):
                continue
        return _Bounded(await self._network.connect_tcp(last, port, timeout, local_address, socket_options))


class _Bounded(httpcore.AsyncNetworkStream):
    """A connection of which no more than `ANSWER_BYTES` are read. What goes before an answer has no end of its own."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, ANSWER_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise httpcore.ReadError("The answer is too long.")
        read = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(read)
        return read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Bounded(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _read_some(response: httpcore.Response) -> None:
    read = 0
    async for chunk in response.aiter_stream():
        read += len(chunk)
        if read >= READ_BYTES:
            return


class TaskUpdate(NamedTuple):
    """What is to be told. number: up to which event all is told then."""

    said: Sequence[StreamResponse]
    number: int


async def task_updates(
    front: Front, asking: OperationRequest, name: TaskId, invocation: Invocation, *, after: int
) -> AsyncIterator[TaskUpdate]:
    """What its events above that number say, and in the end how it stands, if it is not at work. Nothing when there are
    none.
    """
    teller, told, number = _UpdateReader(front, asking, name), list[Event](), after
    async for event in invocation.events():
        if event.partial:
            continue
        told.append(event)
        before, number = number, max(number, event.sequence or 0)
        # Not yet up to the event itself: with the last one comes how it stands.
        if number > after and (said := await teller.of(event, told)):
            yield TaskUpdate(said, before)
    if number > after:
        stands = live_task_record(name, told, begun=True, closed=True)
        # What waits for others, or was gone on with at this moment, is at work, which was told with the message.
        news = [] if stands.state(asking.view) == TaskState.TASK_STATE_WORKING else [await teller.status(stands)]
        yield TaskUpdate(news, number)


async def last_update(front: Front, asking: OperationRequest, name: TaskId) -> TaskUpdate | None:
    """How a task stands that ended before it was begun with; None when there is no such task."""
    try:
        record = await find_task(front, asking, name.id, to="messages:write")
    except A2AError:
        return None
    return TaskUpdate([await _UpdateReader(front, asking, name).status(record)], 0)


class _UpdateReader:
    def __init__(self, front: Front, asking: OperationRequest, name: TaskId) -> None:
        self._front, self._asking, self._name = front, asking, name
        self._narration = TaskEvents(name)

    async def of(self, event: Event, told: Sequence[Event]) -> list[StreamResponse]:
        """What that event says, the last of those told."""
        if event.actions.rewind is not None:  # what an attempt said whose process died is taken back
            record = live_task_record(self._name, told, begun=True, closed=False)
            return [StreamResponse(task=task_of(record, self._asking.view, await self._shown(record.events)))]
        if event.author == USER:
            return [await self.status(TaskRecord(self._name, "running", told))] if event.content else []
        shown = await self._shown([event])
        return [StreamResponse(artifact_update=update) for update in self._narration.whole(event, shown.of(event))]

    async def status(self, record: TaskRecord) -> StreamResponse:
        """How it stands."""
        return StreamResponse(status_update=update_of(record, self._asking.view, await self._shown(record.events)))

    async def _shown(self, events: Sequence[Event]) -> PartWriter:
        return PartWriter(self._asking.view, await files_of(self._front, self._asking, self._name, events))


MEDIA_TYPE, TOKEN = "application/a2a+json", "X-A2A-Notification-Token"
AT_ONCE = 1_000
"""How many one process tells at once; the others wait, or are another's."""
PAUSES = (0.5, 2.0, 8.0)
"""Seconds before each further try."""
CLOSE_SECONDS = 2.0
"""How long the end of a process waits for the store to take back what it has."""

UNSEEN = -1
"""The number below all: there is more to tell."""

log = logging.getLogger("turnwise.gateway")


@asynccontextmanager
async def running_pusher(
    front: Front, courier: PushTransport | None = None, pauses: Sequence[float] = PAUSES
) -> AsyncIterator[None]:
    """Tells who is to be told, as long as the context is entered. courier: None = as the configuration has it."""
    kept = front.pushes.kept
    if kept is None:
        yield
        return
    private = front.config.protocols.a2a.private_pushes
    pusher = Pusher(front, kept, courier or PushTransport(AddressGuard(private=private)), pauses)
    work = asyncio.create_task(pusher.forever())
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await pusher.close()


class Pusher:
    """Takes over who is due, and tells each until his task is over or waits."""

    def __init__(self, front: Front, kept: Kept, courier: PushTransport, pauses: Sequence[float]) -> None:
        self._front, self._kept = front, kept
        self._teller = PushStream(front, kept, courier, pauses)
        process = front.runner.process
        self._lease = Lease(SystemIssuer().new_id("pusher"), process.lease_seconds)
        # So often that what it has is prolonged in time.
        self._look_seconds = min(process.recovery_seconds, process.lease_seconds / 3)
        self._telling: dict[PushPlace, asyncio.Task[None]] = {}
        self._renewed = 0.0

    async def forever(self) -> None:
        """Again and again, until it is cancelled. Survives that the store is away, and what it cannot read there."""
        reached, news = True, self._front.pushes.news
        while True:
            news.clear()
            try:
                await self._round()
                reached = True
            except Exception as problem:
                if reached:
                    is_ours = not isinstance(problem, TurnwiseError)
                    log.warning("Who is to be notified cannot be read: %s", problem, exc_info=is_ours)
                reached = False
            # Not all processes at the same moment.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds * random.uniform(0.8, 1.2)):
                    await news.wait()

    async def close(self) -> None:
        """Stops in the middle, and gives back what it has: whoever takes it over goes on there."""
        telling = [*self._telling.values()]
        for task in telling:
            task.cancel()
        with suppress(TurnwiseError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*telling, return_exceptions=True)
                if telling:
                    await self._kept.give_up(self._lease.holder)

    async def _round(self) -> None:
        await self._renew()
        room = AT_ONCE - len(self._telling)
        if room <= 0 or self._front.closing.is_set():
            return
        for push in await self._kept.claim(self._front.runner.app, self._lease, limit=room):
            if (before := self._telling.get(push.place)) is not None:
                # It was set up anew meanwhile.
                before.cancel()
                await asyncio.wait([before])
            task = self._telling[push.place] = asyncio.create_task(self._tell(push))
            task.add_done_callback(partial(self._done, push.place))

    async def _renew(self) -> None:
        now = time.monotonic()
        if not self._telling or now - self._renewed < self._lease.seconds / 3:
            return
        self._renewed, mine = now, set(self._telling)
        held = await self._kept.renew(self._lease)
        for place in mine - set(held):
            if place in self._telling:
                self._telling[place].cancel()
        for place in set(held) - mine - set(self._telling):
            # Taken by a call of which nobody knew that it was done.
            await self._kept.leave(place, self._lease.holder, seen=UNSEEN)

    async def _tell(self, push: Push) -> None:
        seen: int | None = UNSEEN
        try:
            seen = await self._teller.tell(push, self._lease.holder)
        except Exception as problem:
            # Whatever it is, it is not tried again at once; and what is a defect of ours is told whole.
            log.warning("A notification waits: %s", problem, exc_info=not isinstance(problem, TurnwiseError))
            await asyncio.sleep(self._lease.seconds)
        with suppress(StoreError):
            await self._kept.leave(push.place, self._lease.holder, seen=seen)

    def _done(self, place: PushPlace, task: "asyncio.Task[None]") -> None:
        if self._telling.get(place) is task:
            del self._telling[place]


class PushStream:
    """Tells one, in the order of the log, at least once."""

    def __init__(self, front: Front, kept: Kept, courier: PushTransport, pauses: Sequence[float]) -> None:
        self._front, self._kept, self._courier, self._pauses = front, kept, courier, pauses

    async def tell(self, push: Push, holder: str) -> int | None:
        """Returns when nothing more comes for now: the number above which there is more to tell, None when there never is.
        Raises what the runner and the store raise.
        """
        place, caller = push.place, push.config.caller
        if not await self._may_hear(push.config):
            return None
        user = place.key.user
        name = TaskId(place.key.id, place.message_id, None if user == caller.user else user)
        asking = OperationRequest(caller, Redactor(caller, self._front.runner.tree), None, push.config.base)
        followed = await self._front.pushes.follow(place)
        if followed is None:
            if (last := await last_update(self._front, asking, name)) is not None:
                await self._sent(push.config, last)
            return None
        takes = True
        async for update in task_updates(self._front, asking, name, followed.invocation, after=push.told):
            if not await self._may_hear(push.config):
                return None
            takes = await self._sent(push.config, update, patient=takes)
            if not await self._kept.tell(place, holder, update.number):
                return UNSEEN  # it is another's by now, or nobody's
        is_over = any(event.actions.end for event in visible(followed.invocation.feed.stored))
        is_open = followed.invocation.id in followed.session.head.invocations
        return followed.session.last_sequence if is_open and not is_over else None

    async def _may_hear(self, config: PushConfig) -> bool:
        if await self._front.pushes.is_still_authorized(config.caller):
            return True
        log.warning("Who is notified at %s is told no more: the key that set it up does not count.", _host(config))
        return False

    async def _sent(self, config: PushConfig, update: TaskUpdate, *, patient: bool = True) -> bool:
        """Returns when all of it was taken, or given up; whether the last was taken. Not patient: as the one before was given
        up, each is tried once, until one is taken.
        """
        for body in map(_written, update.said):
            patient = await self._delivered(config, body, self._pauses if patient else ())
        return patient

    async def _delivered(self, config: PushConfig, body: bytes, pauses: Sequence[float]) -> bool:
        for pause in (*pauses, None):
            try:
                await self._courier.deliver(config.url, _headers(config), body)
                return True
            except PushFailed as problem:
                if pause is None:
                    log.warning("A notification for %s was given up: %s.", _host(config), problem)
                    return False
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        return False


def _written(said: StreamResponse) -> bytes:
    text: str = MessageToJson(said, indent=None)
    return text.encode()


def _headers(config: PushConfig) -> Mapping[str, str]:
    headers = {"Content-Type": MEDIA_TYPE, HEADER: SPOKEN, "User-Agent": "turnwise"}
    if config.token:
        headers[TOKEN] = config.token
    if config.scheme:
        headers["Authorization"] = f"{config.scheme} {config.credentials}".strip()
    return headers


def _host(config: PushConfig) -> str:
    """What of the URL may be shown."""
    return parse_target(config.url).host
