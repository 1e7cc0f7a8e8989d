"""`turnwise serve`: the app over HTTP."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnwise.cli.exits import OK
from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.cli.stopping import Answering
    from turnwise.cli.watching import Watching
    from turnwise.facts.gateway import GatewayConfig
    from turnwise.gateway.serving import Serving
    from turnwise.ports.hooks import Hooks

    Load = Callable[[Sequence[Hooks]], App]

COLLECTING = (10_000, 20, 50)
"""After how many new objects, and how many rounds, the collector looks at the young, the middle-aged and the old."""
LEAVE_SECONDS = 1.0
"""How long those who still wait may take to hear that this process leaves before their answer is there."""


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command(short_help="Serve the app over HTTP.")(serve)


def serve(
    config: ConfigOption = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="Where to listen; by default as gateway.host says, or here only."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any that is free.")
    ] = None,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log", help="How log lines look on standard error; by default text at a terminal, else JSON."),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="For development: start again when a Python or YAML file of the project changes."),
    ] = False,
) -> None:
    """Serve the app over HTTP: its own API below /api/v1, OpenAI's below /v1, and a description of both at /docs.

    It also takes up what other processes left behind, as a worker does. Told to stop by Ctrl-C or SIGTERM, it takes no more
    messages, and answers that are being given may still take gateway.grace_seconds; what is not finished then, another
    process takes up.
    """

    from turnwise.cli.needed import need_server

    need_server("turnwise serve")
    if reload:
        from turnwise.cli.reloading import serve_reloading
        from turnwise.config.settings import find_file

        given = {"--config": config, "--host": host, "--port": port, "--log": log}
        options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        raise typer.Exit(serve_reloading(["serve", *options], find_file(config).absolute().parent))

    def load(hooks: "Sequence[Hooks]") -> "App":
        from turnwise.assemble import load_app

        return load_app(config, hooks=hooks)

    raise typer.Exit(serve_app(load, host, port, log))


def serve_app(load: "Load", host: str | None, port: int | None, form: Literal["text", "json"] | None) -> int:
    """Serves the app that `load` gives, with these hooks, until this process is told to stop; the exit code."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(load, host, port, form))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(load: "Load", host: str | None, port: int | None, form: Literal["text", "json"] | None) -> int:
    from turnwise.cli.stopping import Answering
    from turnwise.cli.watching import watching
    from turnwise.telemetry.logs import logging_to

    answering = Answering()
    with logging_to(sys.stderr, form=form, debug=bool(os.environ.get("TURNWISE_DEBUG"))):
        watched = watching()
        app = load([answering, *watched.hooks])
        watched.attach(app.runner)
        given: dict[str, Any] = {"host": host, "port": port}
        config = app.gateway.model_copy(update={name: value for name, value in given.items() if value is not None})
        try:
            return await _served(app, config, watched, answering)
        finally:
            await watched.close()


async def _served(app: "App", config: "GatewayConfig", watched: "Watching", answering: "Answering") -> int:
    from turnwise.cli.interrupts import Interrupts, leave
    from turnwise.cli.startup import startup_lines
    from turnwise.cli.stopping import stopped
    from turnwise.gateway.serving import Serving, bound, front_for

    front = front_for(app.runner, config, watched.metrics, traced=watched.traced)
    serving = Serving(front, bound(config.host, config.port))
    told, asked = _Told(answering), asyncio.Event()
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False):
        await serving.begin()
        for line in startup_lines(app, config, serving, traced=watched.traced):
            told.say(line)
        working = asyncio.create_task(_work(app, serving, told))
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if working.done():  # something is wrong with the store for good
            await _close(app, serving)
            working.result()
        front.closing.set()
        lease_seconds = app.runner.process.lease_seconds
        closing = _close(app, serving)
        if not await stopped(told, working, closing, grace=config.grace_seconds, lease_seconds=lease_seconds):
            # An agent may ignore that it is cancelled; so nothing is waited for any more, but those who are to come again.
            last = {asyncio.create_task(serving.end(0)), asyncio.create_task(watched.close())}
            await asyncio.wait(last, timeout=LEAVE_SECONDS)
            leave(OK)
        told.say("stopped")
        return OK


async def _close(app: "App", serving: "Serving") -> None:
    """Lets what is being answered come to its end, then those who wait for it, then everything else."""
    serving.front.closing.set()
    await app.runner.idle(last=True)
    await serving.front.messages.settled()
    await serving.front.threads.settled()
    await serving.end()
    await app.runner.close()


async def _work(app: "App", serving: "Serving", told: "_Told") -> None:
    from turnwise.cli.preparing import ready
    from turnwise.cli.working import look

    began = time.monotonic()
    await ready(app.runner)
    _collect_rarely()
    serving.front.ready.set()
    told.say(f"ready after {time.monotonic() - began:.1f} s; Ctrl-C stops it")
    await look(app.runner, told.warn)


def _collect_rarely() -> None:
    """What is there now stays, so the garbage collector leaves it alone, and looks for more less often than in a short program:
    otherwise a fifth of what a message costs is spent on looking.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTING)


class _Told:
    """Says what the process does, on standard output."""

    def __init__(self, answering: "Answering") -> None:
        self._answering = answering

    @property
    def running(self) -> int:
        return self._answering.running

    def say(self, text: "str | Text") -> None:
        from turnwise.cli import terminal

        terminal.say(text)

    def warn(self, text: str) -> None:
        from turnwise.cli import terminal

        terminal.note(text, style="yellow")
