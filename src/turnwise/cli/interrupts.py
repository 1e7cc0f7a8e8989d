"""Ctrl-C, or another signal that asks for an end: the first asks, the second leaves at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from turnwise.cli import terminal
from turnwise.cli.exits import INTERRUPTED

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
