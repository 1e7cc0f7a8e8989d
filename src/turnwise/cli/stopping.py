"""How a process that answers messages stops: it takes up nothing more, and what is being answered may come to its end."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from turnwise.cli.rendering import begins_attempt
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

IDLE_SECONDS = 2.0
"""How long a process that answers nothing may take to stop."""

log = logging.getLogger("turnwise.serving")


class Stopping(Protocol):
    """Who is told. running: how many answers are being given now."""

    @property
    def running(self) -> int: ...
    def say(self, text: str) -> None: ...


async def stopped(
    told: Stopping, looking: "asyncio.Task[None]", close: Coroutine[Any, Any, None], *, grace: float, lease_seconds: float
) -> bool:
    """Ends the look for what others left, closes what is to be closed, and says whether that came to its end in time.

    close: waits for what is being answered; it may take as long as `grace` says. What is not answered by then is another
    process's to take up when the lease has run out, after `lease_seconds`.
    """
    looking.cancel()
    if told.running:
        answers = "1 answer is" if told.running == 1 else f"{told.running} answers are"
        told.say(f"stopping: {answers} being given, for {grace:g} s at most; Ctrl-C again leaves at once")
    closing = asyncio.create_task(close)
    _, late = await asyncio.wait({closing, looking}, timeout=min(grace, IDLE_SECONDS))
    if late and told.running:  # else it is a store that cannot be reached, which holds up both of them
        _, late = await asyncio.wait({closing, looking}, timeout=max(grace - IDLE_SECONDS, 0))
    if not late:
        await asyncio.gather(looking, return_exceptions=True)  # what went wrong in its last look does not matter any more
        closing.result()
        return True
    if told.running:
        told.say(f"stopped with {told.running} unfinished; another process takes it up in {lease_seconds:g} s")
    return False


class Answering:
    """Counts, as one of a runner's hooks, the answers that are being given."""

    def __init__(self) -> None:
        self._running: set[tuple[SessionKey, str]] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Nothing: the message's own event says it."""

    async def stored(self, key: SessionKey, event: Event) -> None:
        again = begins_attempt(event)
        if again:
            about = {"session": key.id, "invocation": event.invocation_id}
            log.info("Attempt %d of an answer whose process stopped before its end.", event.attempt, extra=about)
        if again or (event.author == USER and event.actions.selection is not None):
            self._running.add((key, event.invocation_id))

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self._running.discard((key, invocation_id))
