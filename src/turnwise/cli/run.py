"""`turnwise run`: answers many messages from JSON lines, and prints every stored event as a JSON line."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import FAILED, INTERRUPTED, OK
from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from turnwise.cli.line_input import InputLines
    from turnwise.cli.progress_bars import Progress


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("run", short_help="Answer many messages, as JSON lines.")(run)


def run(
    file: Annotated[str, typer.Argument(help="A file of JSON lines; - is standard input.", metavar="FILE")] = "-",
    config: ConfigOption = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=1000, help="How many sessions are answered at once.")] = 8,
) -> None:
    """Answer many messages. Each line is {"user", "session", "message"} with optional "id" and "context".

    Prints every stored event as one JSON line. Messages of one session are answered in order. If a line fails, its error goes
    to standard error, the other lines continue, and the exit code is 1.
    """
    from turnwise.cli.line_input import InputLines
    from turnwise.cli.progress_bars import Progress

    source = None if file == "-" else Path(file)
    if source is not None and not source.is_file():
        raise typer.BadParameter(f"{file} is no file.", param_hint="'FILE'")
    lines = InputLines(source)
    with Progress(lines.count() if source else None) as progress:
        try:
            failed = asyncio.run(_answer_all(config, lines, jobs, progress))
        except asyncio.CancelledError:
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(FAILED if failed else OK)


async def _answer_all(config: Path | None, lines: "InputLines", jobs: int, progress: "Progress") -> int:
    """Answers all lines, at most `jobs` at a time, and returns how many failed. Ctrl-C ends it."""
    from turnwise.cli.batch_run import BatchRun
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import prepare
    from turnwise.cli.shutdown import Interrupts

    this = asyncio.current_task()
    assert this is not None
    with Interrupts(this.cancel):
        async with open_app(config) as app:
            await prepare(app.runner)
            answering = BatchRun(app, jobs, progress, sys.stdout)
            await answering.answer(lines)
            return answering.failed
