"""`turnwise agents try`: shows which recorded decisions a version of a definition would change, before it serves."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.definition_options import (
    MaxOption,
    MinOption,
    NameArgument,
    PolicyOption,
    VersionArgument,
    kind_of,
    open_editor,
)
from turnwise.cli.eval import gates_of
from turnwise.cli.exits import FAILED, OK
from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, UntilOption

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.config.definition_editor import DefinitionEditor
    from turnwise.facts.definitions import AnyDefinition
    from turnwise.learning.evaluate import Gate
    from turnwise.learning.replay import ReplayResult
    from turnwise.learning.trial import Trial
    from turnwise.ports.decisions import DecisionFilter

DECISIONS = 10_000
"""How many decisions are tried by default: the newest ones."""


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise agents`."""
    app.command("try")(try_version)


def try_version(
    name: NameArgument,
    version: VersionArgument = None,
    config: ConfigOption = None,
    policy: PolicyOption = False,
    since: SinceOption = None,
    until: UntilOption = None,
    labelled: Annotated[bool, typer.Option("--labelled", help="Only labelled decisions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many decisions, the newest ones.")] = DECISIONS,
    as_json: JsonOption = False,
    at_least: MinOption = None,
    at_most: MaxOption = None,
) -> None:
    """Show which recorded decisions a version, such as a draft, would change. No agent runs and nothing is stored.

    Each message is decided by what serves, and with the version; labels say which decision is right. Messages that are
    examples of the version are counted apart. Exits with 1 if a figure misses --min or --max.
    """
    from turnwise.cli import terminal
    from turnwise.cli.text_layout import wrap
    from turnwise.ports.decisions import DecisionFilter

    gates = trial_gates(at_least, at_most)
    wanted = DecisionFilter(since=since, until=until, labelled=True if labelled else None)

    async def work() -> "Trial":
        async with open_editor(config, serve=True) as (app, editor):
            tried = await editor.version(kind_of(policy), name, version)
            return await run_trial(app, editor, tried, wanted=wanted, limit=limit)

    trial = asyncio.run(work())
    if as_json:
        terminal.print_json(trial.data())
    else:
        terminal.print_lines(wrap(_trial_lines(trial, terminal.width()), terminal.width()))
    raise typer.Exit(FAILED if print_missed(trial, gates) else OK)


def trial_gates(at_least: list[str] | None, at_most: list[str] | None) -> "list[Gate]":
    """Parses the bounds of a trial's figures."""
    from turnwise.learning.trial import FIGURES

    return [*gates_of(at_least, "--min", keys=FIGURES), *gates_of(at_most, "--max", at_most=True, keys=FIGURES)]


async def run_trial(
    app: "App",
    editor: "DefinitionEditor",
    definition: "AnyDefinition",
    *,
    wanted: "DecisionFilter | None" = None,
    limit: int = DECISIONS,
) -> "Trial":
    """Tries a version on recorded decisions, and shows the progress.

    Raises:
        DefinitionInvalid: It does not fit what serves.
    """
    from turnwise.cli.evaluation import prepare
    from turnwise.cli.progress_bars import work_bar
    from turnwise.learning.replay import places
    from turnwise.learning.trial import try_definition
    from turnwise.ports.decisions import ALL_DECISIONS

    runner = app.runner
    await prepare(runner.cascade)
    then = await editor.tried(definition)
    try:
        await prepare(then)
        found, done = await places(runner.store, runner.app, wanted=wanted or ALL_DECISIONS, limit=limit), 0
        with work_bar("deciding again") as bar:

            def step(count: int) -> None:
                nonlocal done
                done += count
                bar("deciding again", done, len(found))

            return await try_definition(runner.store, definition, runner.cascade, then, found, fitted=True, step=step)
    finally:
        then.close()


def print_missed(trial: "Trial", gates: "Sequence[Gate]") -> bool:
    """Prints the bounds that the trial misses. Returns whether there are any."""
    from turnwise.cli import terminal
    from turnwise.learning.evaluate import missed

    failures = missed(gates, trial.data())
    for failure in failures:
        terminal.print_error("agents.missed", failure.text)
    return bool(failures)


def _trial_lines(trial: "Trial", width: int | None) -> "Iterator[Text]":
    """The lines of a trial: changed decisions, those of the app's own agents, and lint's findings."""
    from rich.text import Text

    from turnwise.cli.lint import finding_lines
    from turnwise.cli.rendering import styled
    from turnwise.cli.replay_output import trial_lines

    definition, own = trial.definition, trial.own
    yield styled(f"{definition.what} {definition.name}, version {definition.version}, against what serves", "bold")
    yield from trial_lines(trial.found, width)
    if own.decisions:
        yield Text()
        yield styled(_own_line(own), "dim")
    if trial.findings:
        yield Text()
        yield from finding_lines(trial.findings)


def _own_line(own: "ReplayResult") -> str:
    changed = own.replayed - own.equal
    return f"not counted: {own.decisions:,} messages are examples of this version ({changed:,} of them change)"
