"""Ctrl-C: the first asks for an end, the second leaves at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from turnwise.cli import terminal
from turnwise.cli.exits import INTERRUPTED

HINT_SECONDS = 1.0


class Interrupts:
    """While it is entered, in a running event loop, the first Ctrl-C calls `first` and a second one ends the process.

    When the end takes longer than a second, a hint says so.
    """

    def __init__(self, first: Callable[[], object]) -> None:
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._hint: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._loop.add_signal_handler(signal.SIGINT, self._pressed)

    def __exit__(self, *_: object) -> None:
        self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)
        if self._hint is not None:
            self._hint.cancel()

    def _pressed(self) -> None:
        if self._hint is None:
            self._hint = self._loop.call_later(
                HINT_SECONDS, terminal.note, "\n(it does not stop yet; Ctrl-C again leaves at once)"
            )
            self._first()
            return
        # An agent that cannot be cancelled keeps the loop, and so Python, from ending. All that was said is stored.
        sys.stdout.flush()
        os._exit(INTERRUPTED)
