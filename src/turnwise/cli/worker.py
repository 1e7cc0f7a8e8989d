"""`turnwise worker`: takes over the unfinished work of other processes."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import INTERRUPTED, OK
from turnwise.cli.options import ConfigOption, EngineOption
from turnwise.dispatch.engine import DEFAULT_LISTEN, EngineSettings
from turnwise.facts.errors import TurnwiseError

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.cli.worklog import WorkLog
    from turnwise.runner import Runner

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
    engine: EngineOption = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="With --engine: where to take its calls.")
    ] = DEFAULT_LISTEN,
    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="URL", help="With --engine: where it reaches the workers, such as a load balancer; else --listen."
        ),
    ] = "",
    engine_key: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-key",
            envvar="TURNWISE_ENGINE_KEY",
            metavar="KEY",
            help="With --engine: its public key. Calls that it did not sign are refused. May be repeated.",
        ),
    ] = None,
) -> None:
    """Answer messages that other processes left unfinished or unanswered.

    Looks for such messages repeatedly until Ctrl-C or SIGTERM; several workers share the work. Uses the agents of the
    configuration, and prints a line when an answer starts and when it ends. Another worker takes over any answer that is
    unfinished when this one stops.

    With --engine, answers the messages that the engine assigns to it.
    """
    if once and engine:
        raise typer.BadParameter("needs no engine: it looks for messages itself.", param_hint="'--once'")
    settings = EngineSettings(engine, listen, url, tuple(engine_key or ())) if engine else None
    raise typer.Exit(asyncio.run(_worker(config, once, grace, settings)))


async def _worker(config: Path | None, once: bool, grace: float, engine: EngineSettings | None) -> int:
    """Takes over unfinished work until a signal comes, or once. Returns the exit code."""
    from turnwise.assemble import load_app
    from turnwise.cli.shutdown import Interrupts, exit_at_once, stop_gracefully
    from turnwise.cli.worklog import WorkLog

    log = WorkLog()
    app = load_app(config, hooks=[log], engine=engine)
    if app.engine is not None:
        await app.engine.check()
    asked = asyncio.Event()
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False), log.counting():
        for line in _intro_lines(app, once, engine):
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


def _intro_lines(app: "App", once: bool, engine: EngineSettings | None) -> tuple[str, str]:
    """The first lines: the worker's task and its settings."""
    process = app.runner.process
    task = "answers messages that other processes left unanswered or unfinished"
    often = "looks once, then ends" if once else f"looks every {process.recovery_seconds:g} s until Ctrl-C"
    if engine is not None:
        task = f"answers messages that {engine.address} assigns to it at {engine.url or engine.listen}"
    return (
        f"worker of {app.runner.app}: {task}",
        f"sessions stored in {app.store} · {often} · at most {process.concurrency} answers at once",
    )


async def _prepare_and_recover(app: "App", log: "WorkLog", *, once: bool) -> None:
    """Prepares the policy, then recovers once or until cancelled."""
    from turnwise.cli.progress_bars import prepare

    async with following_definitions(app):
        await prepare(app.runner)
        if once:
            await app.runner.recover()
        else:
            await run_recovery(app.runner, log.warn)


@asynccontextmanager
async def following_definitions(app: "App") -> AsyncIterator[None]:
    """Serves the newest definitions, and each new revision while the context is entered. Watches the experiment."""
    with suppress(TurnwiseError):  # it is in the log, and the agents of code and configuration serve
        await app.serve_definitions()
    tasks = [asyncio.create_task(work) for work in (app.follow_definitions(), app.watch_experiment())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


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
