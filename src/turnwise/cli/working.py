"""`turnwise worker`: takes up what other processes left behind."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import INTERRUPTED, OK
from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.cli.worklog import WorkLog
    from turnwise.runner import Runner

GRACE_SECONDS = 25.0
"""Somewhat less than what those who start processes usually give them to stop."""


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command(short_help="Answer what other processes left behind.")(worker)


def worker(
    config: ConfigOption = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, answer what is found, and leave.")] = False,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, help="How long answers may still take when it is told to stop."),
    ] = GRACE_SECONDS,
) -> None:
    """Answer what other processes left behind: messages whose process stopped before the end, or that still wait.

    It looks again and again until it is stopped by Ctrl-C or SIGTERM; several workers share the work. It answers with the
    agents of the configuration, and says a line for each message that it takes up, and for its end. What it does not
    finish when it stops, another worker takes up.
    """
    raise typer.Exit(asyncio.run(_worker(config, once, grace)))


async def _worker(config: Path | None, once: bool, grace: float) -> int:
    from turnwise.assemble import load_app
    from turnwise.cli.interrupts import Interrupts, leave
    from turnwise.cli.stopping import stopped
    from turnwise.cli.worklog import WorkLog

    log = WorkLog()
    app = load_app(config, hooks=[log])
    asked = asyncio.Event()
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False), log.counting():
        for line in _beginning(app, once):
            log.say(line)
        looking = asyncio.create_task(_prepared(app, log, once=once))
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
            if not await stopped(log, looking, app.runner.close(), grace=grace, lease_seconds=lease_seconds):
                # An agent may ignore that it is cancelled. What it does not finish is taken up as after any other death.
                leave(INTERRUPTED if once else OK)
        log.stop_counting()
        log.say(log.summary)
        return OK if complete or not once else INTERRUPTED


def _beginning(app: "App", once: bool) -> tuple[str, str]:
    """What it does, and how."""
    process = app.runner.process
    often = "looks once, then ends" if once else f"looks every {process.recovery_seconds:g} s until Ctrl-C"
    return (
        f"worker of {app.runner.app}: answers messages that other processes left unanswered or unfinished",
        f"sessions stored in {app.store} · {often} · at most {process.concurrency} answers at once",
    )


async def _prepared(app: "App", log: "WorkLog", *, once: bool) -> None:
    from turnwise.cli.preparing import ready

    await ready(app.runner)
    if once:
        await app.runner.recover()
    else:
        await look(app.runner, log.warn)


async def look(runner: "Runner", warn: Callable[[str], object]) -> None:
    """Looks for ever for what others left. Raises what is wrong with a store that will never do; a lost one is waited for."""
    await try_store(runner, warn)
    await runner.work()


async def try_store(runner: "Runner", warn: Callable[[str], object]) -> None:
    """Reads from the store once. Raises what is wrong with one that will never do; of a lost one it warns."""
    from turnwise.facts.errors import StoreUnavailable

    try:
        await runner.store.leases.due(runner.app, limit=1)
    except StoreUnavailable as problem:
        warn(f"What is left to do cannot be read: {problem}")
