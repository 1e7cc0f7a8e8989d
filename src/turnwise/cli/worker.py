"""`turnwise worker`: takes over the unfinished work of other processes."""

import asyncio
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.exits import GOOD_ENDS, INTERRUPTED, OK
from turnwise.cli.options import ConfigOption
from turnwise.cli.terminal import one_line
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.runner.record.recorder import LOST, WAITING

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.runner import Runner

DETAIL_CHARACTERS = 200
REPEAT_SECONDS = 60.0
"""How long an identical warning is not repeated, if no other warning comes between."""
REFRESHES = 6


GRACE_SECONDS = 25.0
"""Slightly less than the usual grace period of process managers."""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Answer messages that other processes left unfinished.")(worker)


def worker(
    config: ConfigOption = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, answer what is found, and exit.")] = False,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, help="How long running answers may take after a stop signal."),
    ] = GRACE_SECONDS,
) -> None:
    """Answer messages that other processes left unfinished or unanswered.

    Looks for such messages repeatedly until Ctrl-C or SIGTERM; several workers share the work. Uses the agents of the
    configuration, and prints a line when an answer starts and when it ends. Another worker takes over any answer that is
    unfinished when this one stops.
    """
    raise typer.Exit(asyncio.run(_worker(config, once, grace)))


async def _worker(config: Path | None, once: bool, grace: float) -> int:
    from turnwise.assemble import load_app
    from turnwise.cli.shutdown import Interrupts, exit_at_once, stop_gracefully

    log = WorkLog()
    app = load_app(config, hooks=[log])
    asked = asyncio.Event()
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False), log.counting():
        for line in _intro_lines(app, once):
            log.say(line)
        looking = asyncio.create_task(_prepare_and_recover(app, log, once=once))
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        complete = looking.done()
        if complete:
            await app.runner.close()
            looking.result()
        else:
            log.stop_counting()
            lease_seconds = app.runner.process.lease_seconds
            if not await stop_gracefully(log, looking, app.runner.close(), grace=grace, lease_seconds=lease_seconds):
                # An agent may ignore its cancellation. Another worker recovers its answer, as after a crash.
                exit_at_once(INTERRUPTED if once else OK)
        log.stop_counting()
        log.say(log.summary)
        return OK if complete or not once else INTERRUPTED


def _intro_lines(app: "App", once: bool) -> tuple[str, str]:
    """The first lines: the worker's task and its settings."""
    process = app.runner.process
    often = "looks once, then ends" if once else f"looks every {process.recovery_seconds:g} s until Ctrl-C"
    return (
        f"worker of {app.runner.app}: answers messages that other processes left unanswered or unfinished",
        f"sessions stored in {app.store} · {often} · at most {process.concurrency} answers at once",
    )


async def _prepare_and_recover(app: "App", log: "WorkLog", *, once: bool) -> None:
    from turnwise.cli.progress import prepare

    await prepare(app.runner)
    if once:
        await app.runner.recover()
    else:
        await run_recovery(app.runner, log.warn)


async def run_recovery(runner: "Runner", warn: Callable[[str], object]) -> None:
    """Runs the recovery loop forever. Waits for a store that is temporarily unavailable; raises other errors of the store."""
    await check_store(runner, warn)
    await runner.work()


async def check_store(runner: "Runner", warn: Callable[[str], object]) -> None:
    """Reads from the store once. Only warns if it is temporarily unavailable; raises other errors of the store."""
    from turnwise.facts.errors import StoreUnavailable

    try:
        await runner.store.leases.due(runner.app, limit=1)
    except StoreUnavailable as problem:
        warn(f"Unfinished work cannot be read: {problem}")


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
            self._ended(key, event.invocation_id, reason, end, news)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        """Prints that an answer waits or that its lease was lost. Other ends are printed from their event, which has the
        reason.
        """
        if reason == LOST:
            self._ended(
                key, invocation_id, reason, rendering.styled("lost: another process continues the answer", "yellow"), ""
            )
        elif reason == WAITING:
            self._ended(key, invocation_id, reason, rendering.styled("waits for the user, or for a tool's result", "green"), "")

    def _begins(self, key: SessionKey, event: Event, agent: str, why: str) -> None:
        self.taken += 1
        self._began[event.invocation_id] = time.monotonic()
        what = rendering.styled(f"attempt {event.attempt}", "yellow" if event.attempt > 1 else "")
        what.append(f" by {one_line(agent)}: {why}")
        self._tell(key, event.invocation_id, what)

    def _ended(self, key: SessionKey, invocation_id: str, reason: str, end: Text, news: str) -> None:
        began = self._began.pop(invocation_id, None)
        if began is None:
            self._closed[reason] += 1
        else:
            self._ends[reason] += 1
            end.append(f" after {_duration(time.monotonic() - began)}", style="dim")
        self._tell(key, invocation_id, end.append(f": {news}" if news else ""))

    def _tell(self, key: SessionKey, invocation_id: str, what: Text) -> None:
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
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{text} {type(error).__name__}: {error}"
            if os.environ.get("TURNWISE_DEBUG"):
                terminal.print_note(logging.Formatter().formatException(record.exc_info))
        self._log.warn(text)
