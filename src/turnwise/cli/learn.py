"""`turnwise learn`: proposes examples from labelled decisions."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.exits import FAILED, OK
from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from turnwise.learning.learn import Learned, Traffic
    from turnwise.learning.traffic import LogTraffic
    from turnwise.runner import Runner

_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("learn", short_help="Propose examples from labelled decisions.")(learn)


def learn(
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE", help="A file of cases, as for eval; by default the labelled decisions of the log."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", metavar="TIME", formats=_TIMES, help="Only decisions made then (UTC) or later."),
    ] = None,
    min_gain: Annotated[
        float, typer.Option("--min-gain", min=0, max=1, metavar="0..1", help="The least gain of accuracy on later decisions.")
    ] = 0.0,
    max_loss: Annotated[
        float, typer.Option("--max-loss", min=0, max=1, metavar="0..1", help="The most accuracy that an agent may lose.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the intervals.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.yaml", help="Write the proposed examples as YAML.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Propose examples from labelled decisions. Nothing goes live: read the proposal and copy what you want.

    The later decisions judge what was learned from the earlier ones. Exits with 1 if nothing is surely better.
    """
    from turnwise.cli import terminal
    from turnwise.cli.learn_output import learned_lines, proposal_yaml
    from turnwise.cli.tables import wrap

    if output is not None:
        check_writable(output, "--output")
    found = asyncio.run(_learn(config, cases or [], since, min_gain, max_loss, seed))
    if as_json:
        terminal.print_json(found.data())
    else:
        terminal.print_lines(wrap(learned_lines(found), terminal.width()))
    if output is not None and found.proposal is not None:
        write_report(output, proposal_yaml(found))
        terminal.print_note(f"proposal: {output}")
    raise typer.Exit(OK if found.proposal is not None else FAILED)


async def _learn(
    config: Path | None, cases: list[Path], since: datetime | None, min_gain: float, max_loss: float, seed: int
) -> "Learned":
    from turnwise.cli.evaluation import prepare
    from turnwise.cli.options import open_app
    from turnwise.cli.progress import work_bar
    from turnwise.learning.cases import read_cases
    from turnwise.learning.learn import learn
    from turnwise.learning.traffic import CaseTraffic

    read = read_cases(cases) if cases else []
    async with open_app(config) as app:
        cascade = app.runner.cascade
        await prepare(cascade)
        with work_bar("learning"):
            traffic: Traffic
            traffic = await CaseTraffic.read(read, cascade) if read else await _log(app.runner, since)
            return await learn(cascade, traffic, min_gain=min_gain, max_loss=max_loss, seed=seed)


async def _log(runner: "Runner", since: datetime | None) -> "LogTraffic":
    from datetime import UTC

    from turnwise.learning.traffic import LogTraffic

    since = since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since
    return await LogTraffic.read(runner.store, runner.app, runner.cascade, since=since)
