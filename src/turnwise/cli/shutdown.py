"""Ctrl-C, or another signal that asks for an end: the first asks, the second leaves at once."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, Protocol

from turnwise.cli import terminal
from turnwise.cli.exits import INTERRUPTED
from turnwise.cli.rendering import begins_attempt
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

HINT_SECONDS = 1.0


class Interrupts:
    """While it is entered, in a running event loop, the first Ctrl-C calls `first` and a second one ends the process.

    So do the other `signals` that are named. When the end takes longer than a second, a hint says so, unless `hints` is
    False: then `first` says it.
    """

    def __init__(
        self, first: Callable[[], object], signals: Sequence[signal.Signals] = (signal.SIGINT,), *, hints: bool = True
    ) -> None:
        self._first, self._signals, self._hints = first, signals, hints
        self._loop = asyncio.get_running_loop()
        self._asked = False
        self._hint: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in self._signals}
        for number in self._signals:
            self._loop.add_signal_handler(number, self._pressed)

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, before)
        if self._hint is not None:
            self._hint.cancel()

    def _pressed(self) -> None:
        if not self._asked:
            self._asked = True
            if self._hints:
                self._hint = self._loop.call_later(
                    HINT_SECONDS, terminal.note, "\n(it does not stop yet; Ctrl-C again leaves at once)"
                )
            self._first()
            return
        # An agent that cannot be cancelled keeps the loop, and so Python, from ending. All that was said is stored.
        leave(INTERRUPTED)


def leave(code: int) -> NoReturn:
    """Ends the process at once, whatever still runs in it."""
    sys.stdout.flush()
    os._exit(code)


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
