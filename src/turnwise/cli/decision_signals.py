"""`turnwise decisions signals`: labels decisions by what followed in the log."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, utc

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.learning.collect_signals import Collected


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise decisions`."""
    app.command("signals", short_help="Label decisions by what followed in the log.")(signals)


def signals(
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many decisions, the newest ones.")] = 100_000,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Label decisions by what followed: hand-overs, corrections, repeated messages, thanks, and the like.

    The labels have the source `signal`. Labels of operators and users come before them. Running it again changes nothing,
    unless the log changed.
    """
    from turnwise.cli import terminal

    found = asyncio.run(_signals(config, since, limit))
    if as_json:
        terminal.print_json(found.data())
    else:
        terminal.print_lines(_lines(found))


async def _signals(config: Path | None, since: datetime | None, limit: int) -> "Collected":
    """Labels decisions by what followed in the log, with a progress bar, and returns the counts."""
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import work_bar
    from turnwise.learning.collect_signals import collect_signals

    async with open_app(config) as app:
        runner = app.runner
        default = runner.cascade.spec.default
        with work_bar("reading sessions") as bar:
            return await collect_signals(
                runner.store, runner.app, runner.tree, default=default, since=utc(since), limit=limit, step=bar
            )


def _lines(found: "Collected") -> "Iterator[Text]":
    """The summary of the labels, and the table of signals."""
    from rich.text import Text

    from turnwise.cli.rendering import fit_table, styled
    from turnwise.cli.terminal import one_line, width
    from turnwise.learning.label_signals import SIGNALS

    certain = found.labels - found.unsure
    yield styled(f"{found.labels:,} labels by signals: {certain:,} count, {found.unsure:,} are unsure", "bold")
    changes = f"{found.changed:,} changed, {found.removed:,} removed"
    yield styled(f"{found.decisions:,} decisions in {found.sessions:,} sessions; {changes}", "dim")
    if found.triage:
        yield styled(f"triage agents, whose hand-overs say nothing: {one_line(', '.join(found.triage))}", "dim")
    if not found.signals:
        return
    yield Text()
    counted = [(f"{count:,}", name, SIGNALS[name]) for name, count in found.signals.most_common()]
    rows = [(count, name, each.says, f"{each.weight:g}", each.about) for count, name, each in counted]
    yield from fit_table(("found", "signal", "says", "weight", "what happened"), rows, width(), right=("found", "weight"))
