"""`turnwise mcp`: serves the app over the Model Context Protocol on standard input and output."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from turnwise.cli.exits import OK
from turnwise.cli.line_input import InputError, InputLines
from turnwise.cli.options import DEFAULT_USER, ConfigOption, UserOption

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.cli.serve_output import Telemetry
    from turnwise.cli.shutdown import RunningAnswers
    from turnwise.gateway.front import Front
    from turnwise.gateway.mcp.stdio import StdioServer


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Serve the app to a program over standard input and output (MCP).")(mcp)


def mcp(config: ConfigOption = None, user: UserOption = DEFAULT_USER) -> None:
    """Serve the app to the program that starts this one, as a server of the Model Context Protocol.

    Reads messages from standard input and writes answers to standard output; logs go to standard error. Ends when the input
    ends, or on Ctrl-C or SIGTERM. Running answers may then take gateway.grace_seconds more; another process takes over any that
    are still unfinished.
    """
    with _reserve_stdio() as wire:
        raise typer.Exit(asyncio.run(_mcp(config, user, wire)))


class _Descriptors(NamedTuple):
    """Copies of the descriptors of standard input and output."""

    into: int
    out: int


@contextmanager
def _reserve_stdio() -> Iterator[_Descriptors]:
    """Reserves standard input and output for the protocol.

    Everything else that this process or its children print goes to standard error, and other readers of standard input see its
    end. This is not undone when the block ends, because buffered output may still follow.
    """
    if sys.stdin is None:  # then descriptor 0 may belong to another file
        raise InputError("There is no standard input.", fix="Let the program that speaks the protocol start this one.")
    wire = _Descriptors(os.dup(0), os.dup(1))
    for descriptor in wire:
        os.set_blocking(descriptor, True)  # each is used by a separate thread
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    with redirect_stdout(sys.stderr):
        yield wire


async def _mcp(path: Path | None, user: str, wire: _Descriptors) -> int:
    """Loads the app and serves it until the input ends or a signal comes. Returns the exit code."""
    from turnwise.assemble import load_app
    from turnwise.cli.options import require_mcp, require_server
    from turnwise.cli.serve_output import build_telemetry
    from turnwise.cli.shutdown import RunningAnswers
    from turnwise.telemetry.logs import logging_to

    require_server("turnwise mcp")
    require_mcp("turnwise mcp")
    answering = RunningAnswers()
    with logging_to(sys.stderr, debug=bool(os.environ.get("TURNWISE_DEBUG"))):
        telemetry = build_telemetry()
        app = load_app(path, hooks=[answering, *telemetry.hooks])
        telemetry.attach(app.runner)
        try:
            return await _serve_until_stopped(app, user, wire, telemetry, answering)
        finally:
            await telemetry.close()


async def _serve_until_stopped(
    app: "App", user: str, wire: _Descriptors, telemetry: "Telemetry", answering: "RunningAnswers"
) -> int:
    """Serves the MCP client and works on waiting sessions, then stops gracefully. Returns the exit code."""
    from turnwise.cli.shutdown import IDLE_SECONDS, Interrupts, exit_at_once, stop_gracefully
    from turnwise.cli.worker import check_store

    front = _local_front(app, telemetry)
    output, stop_requested, input_lines = _Output(answering), asyncio.Event(), _Input(wire.into)
    with Interrupts(stop_requested.set, (signal.SIGINT, signal.SIGTERM), hints=False), _writer_thread() as writer:
        stdio = _stdio_server(app, front, user, wire, writer)
        grace = front.config.grace_seconds
        serving = asyncio.create_task(stdio.serve(input_lines.lines(), grace))
        store_check = asyncio.create_task(check_store(app.runner, output.say))
        recovery = asyncio.create_task(_work(app, store_check))
        stop = asyncio.create_task(stop_requested.wait())
        await asyncio.wait({serving, recovery, stop}, return_when=asyncio.FIRST_COMPLETED)
        # The input may end before the store has been checked.
        await asyncio.wait({store_check, stop}, timeout=min(grace, IDLE_SECONDS), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        front.closing.set()
        closing = _close(app, front, stdio, serving)
        if recovery.done() or (store_check.done() and store_check.exception()):  # the store cannot be used at all
            await closing
            await recovery
        left = 0 if stdio.is_cut else grace  # after the end of the input, answers had their grace period already
        if not await stop_gracefully(output, recovery, closing, grace=left, lease_seconds=app.runner.process.lease_seconds):
            await telemetry.close()
            exit_at_once(OK)
        if not serving.cancelled():
            serving.result()
        if input_lines.problem is not None:
            raise input_lines.problem
        return OK


def _local_front(app: "App", telemetry: "Telemetry") -> "Front":
    """The gateway for a local caller: takes only limits, grace period and protocols from the configuration."""
    from turnwise.facts.gateway import GatewayConfig
    from turnwise.gateway.server import front_for

    settings = app.gateway
    config = GatewayConfig(limits=settings.limits, grace_seconds=settings.grace_seconds, protocols=settings.protocols)
    return front_for(app.runner, config, telemetry.metrics, traced=telemetry.traced, editor=app.editor)


def _stdio_server(app: "App", front: "Front", user: str, wire: _Descriptors, writer: ThreadPoolExecutor) -> "StdioServer":
    """Builds the MCP server for one local user. Raises for an invalid user name."""
    from turnwise.access.authenticator import LOCAL
    from turnwise.gateway.mcp.request import McpRequest
    from turnwise.gateway.mcp.server import server_for
    from turnwise.gateway.mcp.stdio import StdioServer
    from turnwise.gateway.mcp.tool_list import ToolChanges

    request = McpRequest(front, LOCAL.replace(user=user))
    request.services.scope.user("messages:write")  # checks that the user's name is valid

    async def write(line: bytes) -> None:
        await asyncio.get_running_loop().run_in_executor(writer, _write, wire.out, line)

    changes = ToolChanges()
    changes.follow(app.runner)
    server = server_for(app.runner.app, front.config.protocols.mcp, lambda _: request, changes)
    return StdioServer(server, write, changes.close)


def _write(descriptor: int, line: bytes) -> None:
    while line:
        line = line[os.write(descriptor, line) :]


@contextmanager
def _writer_thread() -> Iterator[ThreadPoolExecutor]:
    """A thread for output, so that a slow reader blocks only its own answers."""
    writer = ThreadPoolExecutor(1, "turnwise-writer")
    try:
        yield writer
    finally:
        writer.shutdown(wait=False, cancel_futures=True)


class _Input:
    """The input's lines. A read error ends them and is stored in `problem`, so that earlier requests are still answered."""

    def __init__(self, descriptor: int) -> None:
        self._lines = InputLines(descriptor)
        self.problem: InputError | None = None

    async def lines(self) -> AsyncIterator[bytes]:
        try:
            async for _, line in self._lines.read():
                yield line
        except InputError as error:
            self.problem = error


async def _close(app: "App", front: "Front", stdio: "StdioServer", serving: "asyncio.Task[None]") -> None:
    """Waits for running answers and their output, then closes everything else."""
    await app.runner.idle(last=True)
    await front.state.tasks.settled()
    if not serving.done():
        await stdio.wait_idle()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await app.runner.close()


async def _work(app: "App", store_check: "asyncio.Task[None]") -> None:
    """Prepares the policy once the store has been checked, then takes over unfinished work."""
    from turnwise.cli.progress_bars import prepare
    from turnwise.cli.worker import following_definitions

    await store_check
    async with following_definitions(app):
        await prepare(app.runner)
        await app.runner.work()


class _Output:
    """Prints status messages on standard error."""

    def __init__(self, answering: "RunningAnswers") -> None:
        self._answering = answering

    @property
    def running(self) -> int:
        return self._answering.running

    def say(self, text: str) -> None:
        from turnwise.cli import terminal

        terminal.print_note(text)
