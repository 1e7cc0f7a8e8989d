"""`turnwise decisions report`: what the decisions of the traffic show."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, utc

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.learning.decision_report import DecisionReport

_SHOWN, _TEXT = 5, 60


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise decisions`."""
    app.command("report", short_help="Show misroutes, what falls to nobody, conflicts and drift.")(report)


def report(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.html", help="Write a page with pictures, one file.")
    ] = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many decisions, the newest ones.")] = 100_000,
    sample: Annotated[
        int, typer.Option("--sample", min=1, max=100_000, help="How many texts are grouped by meaning, drawn at random.")
    ] = 20_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the draw.")] = 0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the decisions say: frequent misroutes, agents that take each other's messages, what falls to nobody, conflicts
    of patterns, right and wrong by method and confidence, and drift over weeks.

    Accuracy is estimated from randomly picked labels, or by inverse probability; the report says from how many.
    """
    from turnwise.cli import terminal
    from turnwise.cli.rendering import wrap
    from turnwise.learning.report.decision_page import decision_page

    if output is not None:
        check_writable(output, "--output")
    result = asyncio.run(_report(config, since, limit, sample, seed))
    if as_json:
        terminal.print_json(result.data())
    else:
        terminal.print_lines(wrap(_summary_lines(result), terminal.width()))
    if output is not None:
        write_report(output, decision_page(result))
        terminal.print_note(f"report: {output}")


async def _report(config: Path | None, since: datetime | None, limit: int, sample: int, seed: int) -> "DecisionReport":
    """Reads the decisions and returns the report, with a progress bar."""
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import work_bar
    from turnwise.learning.decision_report import decision_report

    async with open_app(config) as app:
        runner = app.runner
        with work_bar("reading decisions") as bar:
            return await decision_report(
                runner.store,
                runner.app,
                runner.cascade,
                since=utc(since),
                limit=limit,
                sample=sample,
                seed=seed,
                step=bar,
            )


def _summary_lines(report: "DecisionReport") -> "Iterator[Text]":
    """The report's summary: counts, accuracy, misroutes, out of scope, conflicts of patterns."""
    from rich.text import Text

    from turnwise.cli.eval_output import percent
    from turnwise.cli.rendering import styled
    from turnwise.cli.terminal import one_line

    yield styled(f"{report.decisions:,} decisions, {report.labels:,} labelled", "bold")
    if report.accuracy is None:
        yield styled("right: unknown, because no labelled decision was picked at random", "dim")
    else:
        each = report.accuracy
        bounds = f"{percent(each.low)} to {percent(each.high)}"
        yield Text(f"right: {percent(each.share)} ({bounds}), estimated from {each.labels:,} labels by {each.how} pick")
    for title, lines in (
        ("misroutes", [f"{each.count:,} of {each.expected} went to {each.chosen}" for each in report.misroutes]),
        (
            "falls to nobody",
            [f"{each.count:,} about {each.name}: {each.examples[0]}" for each in report.groups if each.examples],
        ),
        ("pattern conflicts", [f"{each.count:,} of {' and '.join(each.agents)}" for each in report.conflicts]),
    ):
        if lines:
            yield Text()
            yield styled(title, "bold")
            for line in lines[:_SHOWN]:
                yield Text(f"  {one_line(line, 2 * _TEXT)}")
