"""A worker's log: lines for the terminal about taken sessions, ends and warnings."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.exits import GOOD_ENDS
from turnwise.cli.terminal import one_line
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.runner.record.recorder import LOST, WAITING

DETAIL_CHARACTERS = 200
REPEAT_SECONDS = 60.0
"""How long an identical warning is not repeated, if no other warning comes between."""
REFRESHES = 6


class WorkLog:
    """A hook that prints what a worker does. The worker answers only work that it has taken over.

    Attributes:
        taken: how many answers it has started.
        running: how many are running now.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._began: dict[str, float] = {}
        self._ends: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()
        self._console = terminal.out()
        self._status: Any = None
        self._warned = ("", 0.0)

    @property
    def running(self) -> int:
        return len(self._began)

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Ignored: the message's event reports the selection."""

    async def stored(self, key: SessionKey, event: Event) -> None:
        """Prints the start and the end of an answer."""
        actions = event.actions
        if rendering.starts_attempt(event):
            self._begins(key, event, event.author, f"the process of attempt {event.attempt - 1} stopped")
        elif event.author == USER and actions.selection is not None:
            self._begins(key, event, actions.selection.agent, "from the inbox")
        if actions.end is not None:
            reason = actions.end.reason
            good = reason in GOOD_ENDS
            news = one_line(actions.end.detail, DETAIL_CHARACTERS) if not good else ""
            end = rendering.styled(one_line(reason if good else f"ended {reason}"), "green" if good else "red")
            self._log_end(key, event.invocation_id, reason, end, news)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        """Prints that an answer waits or that its lease was lost. Other ends are printed from their event, which has the
        reason.
        """
        if reason == LOST:
            self._log_end(
                key, invocation_id, reason, rendering.styled("lost: another process continues the answer", "yellow"), ""
            )
        elif reason == WAITING:
            self._log_end(
                key, invocation_id, reason, rendering.styled("waits for the user, or for a tool's result", "green"), ""
            )

    def _begins(self, key: SessionKey, event: Event, agent: str, why: str) -> None:
        self.taken += 1
        self._began[event.invocation_id] = time.monotonic()
        what = rendering.styled(f"attempt {event.attempt}", "yellow" if event.attempt > 1 else "")
        what.append(f" by {one_line(agent)}: {why}")
        self._log_line(key, event.invocation_id, what)

    def _log_end(self, key: SessionKey, invocation_id: str, reason: str, end: Text, news: str) -> None:
        """Prints the end of an answer with its duration, and counts the end."""
        began = self._began.pop(invocation_id, None)
        if began is None:
            self._closed[reason] += 1
        else:
            self._ends[reason] += 1
            end.append(f" after {_duration(time.monotonic() - began)}", style="dim")
        self._log_line(key, invocation_id, end.append(f": {news}" if news else ""))

    def _log_line(self, key: SessionKey, invocation_id: str, what: Text) -> None:
        line = self._stamp()
        line.append(f"{one_line(key.id)} of {one_line(key.user)}  ", style="bold").append_text(what)
        line.append(f"  {one_line(invocation_id)}", style="dim")
        self._print(line)

    def _stamp(self) -> Text:
        return rendering.styled(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ  "), "dim")

    def _print(self, line: Text) -> None:
        if self._status is not None:
            self._status.update(self._counts())
        self._console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        """Prints a line."""
        self._print(self._stamp().append(one_line(text)))

    def warn(self, text: str) -> None:
        """Prints a warning; the same warning at most once a minute."""
        before, when = self._warned
        now = time.monotonic()
        if text == before and now - when < REPEAT_SECONDS:
            return
        self._warned = (text, now)
        self._print(self._stamp().append("warning", style="bold yellow").append(f": {one_line(text)}", style="yellow"))

    @property
    def summary(self) -> str:
        """The number of answers taken over, and how they ended."""
        parts = [f"{self.taken} taken up" + (f": {_counts_text(self._ends)}" if self._ends else "")]
        if self._closed:
            parts.append(f"not run again: {_counts_text(self._closed)}")
        return " · ".join(parts)

    def _counts(self) -> Text:
        now = f"answering {self.running}" if self._began else "nothing to do"
        return Text(f"{now} · {self.summary}")

    @contextmanager
    def counting(self) -> Iterator[None]:
        """While the block runs, a status line shows the counts, and the library's warnings are printed as lines of this log."""
        handler = _WarningHandler(self)
        logger = logging.getLogger("turnwise")
        if not logger.hasHandlers():  # otherwise the app has configured its own logging
            logger.addHandler(handler)
        if self._console.is_terminal:
            self._status = self._console.status(self._counts(), refresh_per_second=REFRESHES)
            self._status.start()
        try:
            yield
        finally:
            self.stop_counting()
            logger.removeHandler(handler)

    def stop_counting(self) -> None:
        """Removes the status line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _counts_text(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {one_line(reason)}" for reason, count in reasons.most_common())


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


class _WarningHandler(logging.Handler):
    """Prints the library's warnings in the work log, one line each; tracebacks only with TURNWISE_DEBUG."""

    def __init__(self, log: WorkLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a log record as a warning, with its exception."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{text} {type(error).__name__}: {error}"
            if os.environ.get("TURNWISE_DEBUG"):
                terminal.print_note(logging.Formatter().formatException(record.exc_info))
        self._log.warn(text)
