"""`turnwise experiments`: shows experiments, and promotes, rolls back or stops one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.exits import FAILED, OK
from turnwise.cli.options import ConfigOption, JsonOption
from turnwise.cli.records import ACTOR

if TYPE_CHECKING:
    from turnwise.facts.experiments import ExperimentRecord
    from turnwise.learning.experiments import ExperimentResult
    from turnwise.ports.experiments import Experiments

app = typer.Typer(help="Show experiments, and end them.", rich_markup_mode=None, no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name.")]


class _AppExperiments(NamedTuple):
    app: str
    store: "Experiments"


@asynccontextmanager
async def _open(config: Path | None) -> AsyncIterator[_AppExperiments]:
    """Opens the experiments of that configuration's app, without its agents.

    Raises:
        ConfigError: if the session store keeps no experiments.
    """
    from turnwise.assemble import load_store
    from turnwise.facts.errors import ConfigError
    from turnwise.ports.experiments import ExperimentStore

    loaded = load_store(config)
    store = loaded.store
    try:
        if not isinstance(store, ExperimentStore):
            raise ConfigError(
                "The session store keeps no experiments.", fix="Use a database: `store: sqlite:///…` or `postgresql://…`."
            )
        yield _AppExperiments(loaded.app, store.experiments)
    finally:
        await loaded.store.close()


@app.command("list")
def list_experiments(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the experiments that have started, by name."""
    asyncio.run(_list(config, as_json))


async def _list(config: Path | None, as_json: bool) -> None:
    """Prints all experiments."""
    from turnwise.cli import terminal
    from turnwise.cli.experiment_output import record_data, record_table

    async with _open(config) as opened:
        found = await opened.store.all(opened.app)
    if as_json:
        terminal.print_json({"experiments": [record_data(record) for record in found]})
    elif not found:
        terminal.print_note(f"No experiment of {opened.app} has started. One starts with its first message.")
    else:
        terminal.print_lines(record_table(found, terminal.width()))


@app.command(short_help="Show what an experiment came to.")
def show(
    name: _Name,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with the experiment over time.")
    ] = None,
) -> None:
    """Show an experiment: its arms, their differences with intervals that hold at every look, and what is wrong with it.

    Exits with 1 if the arms do not have their shares of the units: then no comparison counts.
    """
    from turnwise.cli import terminal
    from turnwise.cli.experiment_output import result_lines
    from turnwise.cli.text_layout import wrap
    from turnwise.learning.report.pages import experiment_page

    if report is not None:
        check_writable(report, "--report")
    found = asyncio.run(_show(config, name))
    if as_json:
        terminal.print_json(found.data())
    else:
        terminal.print_lines(wrap(result_lines(found, terminal.width()), terminal.width()))
    if report is not None:
        write_report(report, experiment_page(found))
        terminal.print_note(f"report: {report}")
    raise typer.Exit(FAILED if found.is_broken else OK)


async def _show(config: Path | None, name: str) -> "ExperimentResult":
    """Returns an experiment's result."""
    from datetime import UTC, datetime

    from turnwise.learning.experiments import find_experiment, read_result

    async with _open(config) as opened:
        record = await find_experiment(opened.store, opened.app, name)
        return await read_result(opened.store, opened.app, record, datetime.now(UTC))


@app.command(short_help="Compare the policy with its shadow.")
def shadow(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Compare the policy with its shadow on the messages that both decided, outside of experiments."""
    from turnwise.cli import terminal
    from turnwise.cli.experiment_output import paired_lines
    from turnwise.cli.text_layout import wrap

    async def read() -> None:
        from turnwise.learning.experiments import read_shadow

        async with _open(config) as opened:
            found = await read_shadow(opened.store, opened.app)
        if as_json:
            terminal.print_json(found.data())
        else:
            terminal.print_lines(wrap(paired_lines(found), terminal.width()))

    asyncio.run(read())


@app.command(short_help="Let an arm decide all new sessions.")
def promote(
    name: _Name,
    arm: Annotated[str, typer.Argument(metavar="ARM", help="The arm that decides from now on.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let an arm's policy decide all sessions that begin from now on. Sessions that began earlier keep their arm.

    Then make the arm's policy the app's policy in the configuration, and remove the experiment.
    """

    async def change(opened: _AppExperiments) -> "ExperimentRecord":
        from datetime import UTC, datetime

        from turnwise.learning.experiments import promote as promoted

        return await promoted(opened.store, opened.app, name, arm, datetime.now(UTC), actor=ACTOR)

    _print_change(asyncio.run(_changed(config, change)), as_json)


@app.command(short_help="End the experiment at once in favour of the control.")
def rollback(
    name: _Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the control decide in all sessions of the experiment at once, and the app's policy in new ones."""

    async def change(opened: _AppExperiments) -> "ExperimentRecord":
        from datetime import UTC, datetime

        from turnwise.learning.experiments import roll_back

        return await roll_back(opened.store, opened.app, name, datetime.now(UTC), actor=ACTOR, reason=reason)

    _print_change(asyncio.run(_changed(config, change)), as_json)


@app.command(short_help="Take no more sessions into an experiment.")
def stop(name: _Name, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Take no more sessions into the experiment. Sessions that began earlier keep their arm, and can be analysed."""

    async def change(opened: _AppExperiments) -> "ExperimentRecord":
        from datetime import UTC, datetime

        from turnwise.learning.experiments import stop as stopped

        return await stopped(opened.store, opened.app, name, datetime.now(UTC), actor=ACTOR)

    _print_change(asyncio.run(_changed(config, change)), as_json)


async def _changed(
    config: Path | None, change: Callable[[_AppExperiments], Awaitable["ExperimentRecord"]]
) -> "ExperimentRecord":
    async with _open(config) as opened:
        return await change(opened)


def _print_change(record: "ExperimentRecord", as_json: bool) -> None:
    """Prints the state of an experiment that a command has changed."""
    from turnwise.cli import terminal
    from turnwise.cli.experiment_output import record_data, state_text

    if as_json:
        terminal.print_json(record_data(record))
    else:
        terminal.print_line(f"The experiment {record.name} is {state_text(record)}.")
