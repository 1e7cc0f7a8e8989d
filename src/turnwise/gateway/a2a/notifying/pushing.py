"""Notifications, as long as the gateway is served: who is to be told is taken over, told in order, and given back.

Any number of processes may do it; each of those to be told is had by one of them. Nobody waits for it: runs do not know of
it, and each of those to be told is told by a task of his own.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from a2a.types import StreamResponse
from google.protobuf.json_format import MessageToJson

from turnwise.facts.errors import StoreError, TurnwiseError
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.pushes import PushConfig
from turnwise.facts.sessions import visible
from turnwise.gateway.a2a.asking import Asking
from turnwise.gateway.a2a.names import TaskName
from turnwise.gateway.a2a.notifying.delivering import Courier, Undelivered
from turnwise.gateway.a2a.notifying.guarding import Guard, target_of
from turnwise.gateway.a2a.notifying.updates import Update, last_update, updates
from turnwise.gateway.a2a.versions import HEADER, SPOKEN
from turnwise.gateway.front import Front
from turnwise.gateway.shown import View
from turnwise.ports.pushes import Push, PushPlace
from turnwise.ports.pushes import Pushes as Kept
from turnwise.ports.stores import Lease

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
async def pushing(front: Front, courier: Courier | None = None, pauses: Sequence[float] = PAUSES) -> AsyncIterator[None]:
    """Tells who is to be told, as long as the context is entered. courier: None = as the configuration has it."""
    kept = front.pushes.kept
    if kept is None:
        yield
        return
    private = front.config.protocols.a2a.private_pushes
    pusher = Pusher(front, kept, courier or Courier(Guard(private=private)), pauses)
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

    def __init__(self, front: Front, kept: Kept, courier: Courier, pauses: Sequence[float]) -> None:
        self._front, self._kept = front, kept
        self._teller = Teller(front, kept, courier, pauses)
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


class Teller:
    """Tells one, in the order of the log, at least once."""

    def __init__(self, front: Front, kept: Kept, courier: Courier, pauses: Sequence[float]) -> None:
        self._front, self._kept, self._courier, self._pauses = front, kept, courier, pauses

    async def tell(self, push: Push, holder: str) -> int | None:
        """Returns when nothing more comes for now: the number above which there is more to tell, None when there never is.
        Raises what the runner and the store raise.
        """
        place, caller = push.place, push.config.caller
        if not await self._may_hear(push.config):
            return None
        user = place.key.user
        name = TaskName(place.key.id, place.message_id, None if user == caller.user else user)
        asking = Asking(caller, View(caller, self._front.runner.tree), None, push.config.base)
        followed = await self._front.pushes.follow(place)
        if followed is None:
            if (last := await last_update(self._front, asking, name)) is not None:
                await self._sent(push.config, last)
            return None
        takes = True
        async for update in updates(self._front, asking, name, followed.invocation, after=push.told):
            if not await self._may_hear(push.config):
                return None
            takes = await self._sent(push.config, update, patient=takes)
            if not await self._kept.tell(place, holder, update.number):
                return UNSEEN  # it is another's by now, or nobody's
        is_over = any(event.actions.end for event in visible(followed.invocation.feed.stored))
        is_open = followed.invocation.id in followed.session.head.invocations
        return followed.session.last_sequence if is_open and not is_over else None

    async def _may_hear(self, config: PushConfig) -> bool:
        if await self._front.pushes.may_hear(config.caller):
            return True
        log.warning("Who is notified at %s is told no more: the key that set it up does not count.", _host(config))
        return False

    async def _sent(self, config: PushConfig, update: Update, *, patient: bool = True) -> bool:
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
            except Undelivered as problem:
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
    return target_of(config.url).host
