"""Graceful shutdown: the first signal starts it, the second one exits at once."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, Protocol

from turnwise.cli import terminal
from turnwise.cli.exits import INTERRUPTED
from turnwise.cli.rendering import starts_attempt
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

HINT_SECONDS = 1.0


class Interrupts:
    """While the block runs, the first signal calls `first` and the second one ends the process. Needs a running event loop.

    Args:
        first: starts the shutdown.
        signals: by default Ctrl-C.
        hints: whether to print a hint if the shutdown takes longer than a second.
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
            self._loop.add_signal_handler(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, before)
        if self._hint is not None:
            self._hint.cancel()

    def _on_signal(self) -> None:
        """Handles a signal: the first one calls the callback, the second one exits at once."""
        if not self._asked:
            self._asked = True
            if self._hints:
                self._hint = self._loop.call_later(
                    HINT_SECONDS, terminal.print_note, "\n(still stopping; Ctrl-C again exits at once)"
                )
            self._first()
            return
        # An agent that ignores its cancellation keeps the loop, and so Python, from ending. All events are stored by now.
        exit_at_once(INTERRUPTED)


def exit_at_once(code: int) -> NoReturn:
    """Ends the process at once, even if work is running."""
    sys.stdout.flush()
    os._exit(code)


IDLE_SECONDS = 2.0
"""How long a process without running answers may take to stop."""

log = logging.getLogger("turnwise.serving")


class ShutdownOutput(Protocol):
    """Receives the messages of a shutdown.

    Attributes:
        running: the number of running answers.
    """

    @property
    def running(self) -> int: ...
    def say(self, text: str) -> None: ...


async def stop_gracefully(
    told: ShutdownOutput, looking: "asyncio.Task[None]", close: Coroutine[Any, Any, None], *, grace: float, lease_seconds: float
) -> bool:
    """Cancels the recovery loop and closes the runner. Returns whether that finished in time.

    Another process takes over unfinished answers when the lease has expired.

    Args:
        told: receives messages.
        looking: the recovery loop.
        close: waits for running answers, then closes everything.
        grace: how many seconds `close` may take while answers are running.
        lease_seconds: for the message about unfinished answers.
    """
    looking.cancel()
    if told.running:
        answers = "1 answer is" if told.running == 1 else f"{told.running} answers are"
        told.say(f"stopping: {answers} being given, for {grace:g} s at most; Ctrl-C again exits at once")
    closing = asyncio.create_task(close)
    _, late = await asyncio.wait({closing, looking}, timeout=min(grace, IDLE_SECONDS))
    if late and told.running:  # otherwise an unreachable store is blocking both tasks
        _, late = await asyncio.wait({closing, looking}, timeout=max(grace - IDLE_SECONDS, 0))
    if not late:
        await asyncio.gather(looking, return_exceptions=True)  # an error of its last round no longer matters
        closing.result()
        return True
    if told.running:
        told.say(f"stopped with {told.running} unfinished; another process takes it up in {lease_seconds:g} s")
    return False


class RunningAnswers:
    """A hook that counts the running answers."""

    def __init__(self) -> None:
        self._running: set[tuple[SessionKey, str]] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Ignored: the message's event reports the selection."""

    async def stored(self, key: SessionKey, event: Event) -> None:
        """Notes a stored event that begins an answer or another attempt."""
        again = starts_attempt(event)
        if again:
            about = {"session": key.id, "invocation": event.invocation_id}
            log.info("Attempt %d of an answer whose process stopped before its end.", event.attempt, extra=about)
        if again or (event.author == USER and event.actions.selection is not None):
            self._running.add((key, event.invocation_id))

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self._running.discard((key, invocation_id))
