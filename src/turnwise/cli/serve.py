"""`turnwise serve`, `turnwise console` and `turnwise a2a-kit`: serve the app, its console, or the A2A kit's app over HTTP."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnwise.cli.exits import OK
from turnwise.cli.options import ConfigOption, EngineOption, require_server

if TYPE_CHECKING:
    import socket

    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.cli.serve_output import Telemetry
    from turnwise.cli.shutdown import RunningAnswers
    from turnwise.facts.gateway import GatewayConfig
    from turnwise.gateway.server import Serving
    from turnwise.ports.hooks import Hooks

    Load = Callable[[Sequence[Hooks]], App]

GC_THRESHOLDS = (10_000, 20, 50)
"""Thresholds of the garbage collector's three generations; see `gc.set_threshold`."""
NOTICE_SECONDS = 1.0
"""How long to wait for clients to receive the notice that this process stops before their answer is complete."""


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command(short_help="Serve the app over HTTP.")(serve)
    app.command(short_help="Serve the console for a gateway elsewhere.")(console)
    app.command("a2a-kit", short_help="Serve agents for A2A's conformance kit.")(a2a_kit)


def serve(
    config: ConfigOption = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="Address to listen on; by default gateway.host, else this machine only."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any free port.")
    ] = None,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log", help="Format of log lines on standard error; by default text on a terminal, else JSON."),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="For development: restart when a Python or YAML file of the project changes."),
    ] = False,
    engine: EngineOption = None,
) -> None:
    """Serve the app over HTTP: its own API below /api/v1, OpenAI's below /v1, and the documentation of both at /docs.

    Also takes over the unfinished work of other processes, like a worker. On Ctrl-C or SIGTERM it accepts no new messages, and
    running answers may take gateway.grace_seconds more; another process takes over any that are still unfinished.

    With --engine, this process accepts messages, and workers answer them.
    """

    require_server("turnwise serve")
    if reload:
        from turnwise.cli.reload import serve_reloading
        from turnwise.config.settings import find_file

        given = {"--config": config, "--host": host, "--port": port, "--log": log, "--engine": engine}
        options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        raise typer.Exit(serve_reloading(["serve", *options], find_file(config).absolute().parent))

    def load(hooks: "Sequence[Hooks]") -> "App":
        from turnwise.assemble import load_app
        from turnwise.dispatch.engine import EngineSettings

        return load_app(config, hooks=hooks, engine=EngineSettings(engine) if engine else None)

    raise typer.Exit(serve_app(load, host, port, log))


def serve_app(load: "Load", host: str | None, port: int | None, form: Literal["text", "json"] | None) -> int:
    """Serves the app that `load` returns until this process is stopped. Returns the exit code.

    Args:
        load: builds the app with the given hooks.
        form: the format of log lines; None = text on a terminal, else JSON.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(load, host, port, form))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(load: "Load", host: str | None, port: int | None, form: Literal["text", "json"] | None) -> int:
    """Loads the app with telemetry and serves it. Returns the exit code."""
    from turnwise.cli.serve_output import build_telemetry
    from turnwise.cli.shutdown import RunningAnswers
    from turnwise.telemetry.logs import logging_to

    answering = RunningAnswers()
    with logging_to(sys.stderr, form=form, debug=bool(os.environ.get("TURNWISE_DEBUG"))):
        telemetry = build_telemetry()
        app = load([answering, *telemetry.hooks])
        telemetry.attach(app.runner)
        config = app.gateway.replace(
            host=app.gateway.host if host is None else host, port=app.gateway.port if port is None else port
        )
        try:
            if app.engine is not None:
                await app.engine.check()
            return await _serve_until_stopped(app, config, telemetry, answering)
        finally:
            await telemetry.close()


async def _serve_until_stopped(app: "App", config: "GatewayConfig", telemetry: "Telemetry", answering: "RunningAnswers") -> int:
    """Serves until a signal comes or the store fails, then stops gracefully. Returns the exit code."""
    from turnwise.cli.serve_output import startup_lines
    from turnwise.cli.shutdown import Interrupts, exit_at_once, stop_gracefully
    from turnwise.gateway.server import Serving, bound_socket, front_for

    front = front_for(app.runner, config, telemetry.metrics, traced=telemetry.traced, editor=app.editor)
    serving = Serving(front, bound_socket(config.host, config.port))
    output, stop_requested = _Output(answering), asyncio.Event()
    with Interrupts(stop_requested.set, (signal.SIGINT, signal.SIGTERM), hints=False):
        await serving.begin()
        for line in startup_lines(app, config, serving, traced=telemetry.traced):
            output.say(line)
        recovery = asyncio.create_task(_work(app, serving, output))
        stop = asyncio.create_task(stop_requested.wait())
        await asyncio.wait({recovery, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if recovery.done():  # the store cannot be used at all
            await _close(app, serving)
            recovery.result()
        front.closing.set()
        lease_seconds = app.runner.process.lease_seconds
        closing = _close(app, serving)
        if not await stop_gracefully(output, recovery, closing, grace=config.grace_seconds, lease_seconds=lease_seconds):
            # An agent may ignore its cancellation: wait only until clients have been told to retry.
            last = {asyncio.create_task(serving.end(0)), asyncio.create_task(telemetry.close())}
            await asyncio.wait(last, timeout=NOTICE_SECONDS)
            exit_at_once(OK)
        output.say("stopped")
        return OK


async def _close(app: "App", serving: "Serving") -> None:
    """Waits for running answers and the responses that carry them, then closes everything else."""
    serving.front.closing.set()
    await app.runner.idle(last=True)
    await serving.front.state.tasks.settled()
    await serving.end()
    await app.runner.close()


async def _work(app: "App", serving: "Serving", output: "_Output") -> None:
    """Prepares the policy, reports the gateway as ready, and takes over unfinished work."""
    from turnwise.cli.progress_bars import prepare
    from turnwise.cli.worker import following_definitions, run_recovery

    began = time.monotonic()
    async with following_definitions(app):
        await prepare(app.runner)
        tune_garbage_collector()
        serving.front.ready.set()
        output.say(f"ready after {time.monotonic() - began:.1f} s; Ctrl-C stops it")
        await run_recovery(app.runner, output.warn)


def tune_garbage_collector() -> None:
    """Tunes the garbage collector for a long-running process: freezes the objects that exist now and collects less often.

    With the defaults, collection takes a fifth of the time of a message.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class _Output:
    """Prints status messages on standard output."""

    def __init__(self, answering: "RunningAnswers") -> None:
        self._answering = answering

    @property
    def running(self) -> int:
        return self._answering.running

    def say(self, text: "str | Text") -> None:
        from turnwise.cli import terminal

        terminal.print_line(text)

    def warn(self, text: str) -> None:
        from turnwise.cli import terminal

        terminal.print_note(text, style="yellow")


KIT_HOST, KIT_PORT = "127.0.0.1", 9999
"""The kit's default address of the server under test."""


def a2a_kit(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = KIT_HOST,
    port: Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any free port.")] = KIT_PORT,
) -> None:
    """Serve agents that behave as the A2A conformance kit (a2a-tck) expects, over this version's A2A protocol.

    Needs no project: there is nothing to configure, and all data is lost when it ends. Run the kit in a second terminal: pass
    it the printed address with --sut-host.
    """
    require_server("turnwise a2a-kit")
    raise typer.Exit(serve_app(_load_kit, host, port, None))


def _load_kit(hooks: "Sequence[Hooks]") -> "App":
    from turnwise.assemble import App
    from turnwise.testing.a2a_kit import STORE, kit_app, kit_gateway

    return App(kit_app(hooks=hooks), Path(), STORE, gateway=kit_gateway())


def console(
    gateway: Annotated[str, typer.Argument(metavar="URL", help="The gateway's URL, such as https://agents.example.com.")],
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any free port.")] = 8001,
) -> None:
    """Serve the console for a gateway elsewhere. The page is the one that a gateway serves at /console/.

    The browser calls the gateway itself, so the gateway has to name the console's origin in gateway.origins. This process
    sees no key and no message.
    """
    from turnwise.cli import terminal
    from turnwise.client.connection import check_url

    require_server("turnwise console")
    from turnwise.gateway.server import bound_socket, url_of

    url, listening = check_url(gateway), bound_socket(host, port)
    address = url_of(*listening.getsockname()[:2])
    terminal.print_line(f"Console of {url} at {address}/console/")
    terminal.print_line(f"  the gateway has to allow this page: gateway: {{origins: ['{address}']}}")
    asyncio.run(_serve_console(url, listening))
    raise typer.Exit(OK)


async def _serve_console(gateway: str, listening: "socket.socket") -> None:
    """Serves the page until Ctrl-C or SIGTERM."""
    import uvicorn

    from turnwise.cli.shutdown import Interrupts
    from turnwise.gateway.console import console_app
    from turnwise.gateway.server import UvicornServer

    config = uvicorn.Config(console_app(gateway), log_config=None, access_log=False, server_header=False, lifespan="off")
    server = UvicornServer(config)

    def stop() -> None:
        server.should_exit = True

    with Interrupts(stop, (signal.SIGINT, signal.SIGTERM), hints=False):
        await server.serve(sockets=[listening])
