"""`turnwise decisions export`: labelled decisions as cases."""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, utc

if TYPE_CHECKING:
    from turnwise.learning.cases import Case


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise decisions`."""
    app.command("export", short_help="Write labelled decisions as cases for eval.")(export)


def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file; by default standard output.")
    ] = None,
    format: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="JSON lines, which eval and learn read; or Parquet, one row a message, with --output."),
    ] = "jsonl",
    since: SinceOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write labelled decisions as cases for eval and learn, each with the conversation before it.

    A session is one dialogue, in one line. Personal data and keys are replaced by their kinds; read the file all the same
    before you pass it on.
    """
    from turnwise.cli import terminal
    from turnwise.learning.export_cases import case_data, parquet, scored

    if output is not None:
        check_writable(output, "--output")
    elif format == "parquet":
        raise typer.BadParameter("A Parquet file is no text: pass --output FILE, too.", param_hint="'--format'")
    if format == "parquet":
        parquet(())  # a missing library is told before the work
    cases = asyncio.run(_cases(config, since))
    lines = "".join(json.dumps(case_data(each), ensure_ascii=False) + "\n" for each in cases)
    if output is not None:
        write_report(output, parquet(cases) if format == "parquet" else lines)
        if as_json:
            terminal.print_json({"file": str(output), "dialogues": len(cases), "labelled": scored(cases)})
        else:
            terminal.print_note(f"{len(cases):,} dialogues with {scored(cases):,} labelled messages: {output}")
    elif as_json:
        terminal.print_json({"cases": [case_data(each) for each in cases]})
    else:
        terminal.write(lines)


async def _cases(config: Path | None, since: datetime | None) -> "list[Case]":
    from turnwise.cli.options import open_app
    from turnwise.learning.export_cases import labelled_cases

    async with open_app(config) as app:
        runner = app.runner
        default = runner.cascade.spec.default or runner.tree.root
        return [each async for each in labelled_cases(runner.store, runner.app, default, since=utc(since))]
