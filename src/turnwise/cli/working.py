"""`turnwise worker`: takes up what other processes left behind."""

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import INTERRUPTED, OK
from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.cli.worklog import WorkLog

GRACE_SECONDS = 25.0
"""Somewhat less than what those who start processes usually give them to stop."""
IDLE_SECONDS = 2.0
"""How long a worker that answers nothing may take to stop."""


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
    from turnwise.cli.worklog import WorkLog

    log = WorkLog()
    app = load_app(config, hooks=[log])
    asked = asyncio.Event()
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False), log.counting():
        log.say(_beginning(app, once))
        looking = asyncio.create_task(_prepared(app, log, once=once))
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        complete = looking.done()
        if complete:
            await app.runner.close()
            looking.result()
        elif not await _stopped(app, log, looking, grace):
            # An agent may ignore that it is cancelled. What it does not finish is taken up as after any other death.
            leave(INTERRUPTED if once else OK)
        log.stop_counting()
        log.say(log.summary)
        return OK if complete or not once else INTERRUPTED


def _beginning(app: "App", once: bool) -> str:
    process = app.runner.process
    often = "looks once" if once else f"looks every {process.recovery_seconds:g} s"
    return f"worker of {app.runner.app} · store {app.store} · {often} · answers at most {process.concurrency} at once"


async def _prepared(app: "App", log: "WorkLog", *, once: bool) -> None:
    from turnwise.cli.preparing import ready

    await ready(app.runner)
    await _look(app, log, once=once)


async def _look(app: "App", log: "WorkLog", *, once: bool) -> None:
    """Looks `once`, or for ever. Raises what is wrong with a store that will never do; a lost one is waited for."""
    from turnwise.facts.errors import StoreUnavailable

    if once:
        await app.runner.recover()
        return
    try:
        await app.runner.store.leases.due(app.runner.app, limit=1)
    except StoreUnavailable as problem:
        log.warn(f"What is left to do cannot be read: {problem}")
    await app.runner.work()


async def _stopped(app: "App", log: "WorkLog", looking: "asyncio.Task[None]", grace: float) -> bool:
    """Takes up nothing more, and waits for what is being answered, for a while; whether it came to its end."""
    log.stop_counting()
    looking.cancel()
    if log.running:
        answers = "1 answer is" if log.running == 1 else f"{log.running} answers are"
        log.say(f"stopping: {answers} being given, for {grace:g} s at most; Ctrl-C again leaves at once")
    closing = asyncio.create_task(app.runner.close())
    _, late = await asyncio.wait({closing, looking}, timeout=min(grace, IDLE_SECONDS))
    if late and log.running:  # else it is a store that cannot be reached, which holds up both of them
        _, late = await asyncio.wait({closing, looking}, timeout=max(grace - IDLE_SECONDS, 0))
    if not late:
        await asyncio.gather(looking, return_exceptions=True)  # what went wrong in its last look does not matter any more
        closing.result()
        return True
    if log.running:
        again = f"another worker takes it up in {app.runner.process.lease_seconds:g} s"
        log.say(f"stopped with {log.running} unfinished; {again}")
    return False
