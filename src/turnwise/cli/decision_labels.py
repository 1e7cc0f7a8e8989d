"""`turnwise decisions label`, `review`, `signals` and `export`: labels decisions, and writes labelled ones as cases."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import DEFAULT_USER, ConfigOption, JsonOption, SinceOption, UserOption, agent_names, utc

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.learning.cases import Case
    from turnwise.learning.collect_signals import Collected
    from turnwise.learning.review import Queued
    from turnwise.ports.decisions import Label

_TEXT_CHARACTERS = 60


def register(app: typer.Typer) -> None:
    """Adds the commands to `turnwise decisions`."""
    app.command("label", short_help="Say which agent should have been chosen.")(label)
    app.command("review", short_help="List the decisions to label next.")(review)
    app.command("signals", short_help="Label decisions by what followed in the log.")(signals)
    app.command("export", short_help="Write labelled decisions as cases for eval.")(export)


def label(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    sequence: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="The number of the event that holds the decision.")],
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="The agent that should have been chosen.", autocompletion=agent_names),
    ] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="No agent should have been chosen.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the labels of all operators.")] = False,
    unsure: Annotated[bool, typer.Option("--unsure", help="You doubt the label: nothing is learned from it.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A remark for people.")] = "",
    picked: Annotated[
        str | None, typer.Option("--picked", metavar="HOW", help="How the review picked it: random, doubt or complaint.")
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option("--probability", min=0, max=1, metavar="0..1", help="The probability with which the review picked it."),
    ] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Label a decision as an operator: which agent should have been chosen. A new label replaces the one before."""
    if (agent is not None) + nobody + remove != 1:
        raise UsageProblem("The label is missing, or there are several.", fix="Name an agent, or pass --nobody or --remove.")
    given = None if remove else _build_label(agent, unsure, note, picked, probability)
    asyncio.run(_label(config, user, session, sequence, given, as_json))


def _build_label(agent: str | None, unsure: bool, note: str, picked: str | None, probability: float | None) -> "Label":
    """Builds the label from the options. Raises UsageProblem for an invalid value."""
    from pydantic import ValidationError

    from turnwise.cli.options import ACTOR
    from turnwise.ports.decisions import Label

    try:
        return Label(author=ACTOR, agent=agent, unsure=unsure, note=note, picked=picked, probability=probability)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageProblem(f"--{first['loc'][0]}: {first['msg']}.", fix="Pass another value.") from None


async def _label(config: Path | None, user: str, session: str, sequence: int, given: "Label | None", as_json: bool) -> None:
    """Stores or removes the operator's label of a decision, and prints the result."""
    from turnwise.cli import terminal
    from turnwise.cli.options import ACTOR, open_app
    from turnwise.ports.records import record_store_of

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        key = runner.key(user, session)
        if given is None:
            await runner.store.decisions.label(key, sequence, None, actor=ACTOR)
        else:
            if given.agent is not None and given.agent not in runner.tree:
                raise UsageProblem(f"There is no agent {given.agent[:64]!r}.", fix="`turnwise tree show` lists the agents.")
            await record_store_of(runner.store).labels.put(key, sequence, given, actor=ACTOR)
    if as_json:
        shown = None if given is None else given.model_dump(mode="json", exclude={"at"})
        terminal.print_json({"session": session, "sequence": sequence, "label": shown})
        return
    said = "has no label of an operator now" if given is None else f"is labelled {given.agent or 'nobody'}"
    terminal.print_line(f"Decision #{sequence} of session {session} {said}.")


def review(
    size: Annotated[int, typer.Option("--size", "-n", min=1, max=1_000, help="How many decisions.")] = 20,
    share: Annotated[
        float, typer.Option("--random", min=0, max=1, metavar="0..1", help="The share of decisions that are drawn at random.")
    ] = 0.1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the draw.")] = 0,
    limit: Annotated[
        int, typer.Option("--of", min=1, max=100_000, help="Choose from this number of the newest decisions.")
    ] = 10_000,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the decisions to label next: the most contradicted, then the most doubtful, and some at random.

    Pass `picked` and `probability` on to `decisions label`: accuracy is estimated from the random ones.
    """
    from turnwise.cli import terminal
    from turnwise.cli.decision_output import decision_data

    found = asyncio.run(_review(config, size, share, seed, limit))
    if as_json:
        keys = ("picked", "doubt", "probability")
        queue = [decision_data(each.decision) | {key: getattr(each, key) for key in keys} for each in found]
        terminal.print_json({"queue": queue})
    elif found:
        terminal.print_lines(_queue_lines(found))
    else:
        terminal.print_note("There is no decision to label.")


async def _review(config: Path | None, size: int, share: float, seed: int, limit: int) -> "list[Queued]":
    """Returns the decisions to label next."""
    from turnwise.cli.options import open_app
    from turnwise.learning.review import read_queue

    async with open_app(config) as app:
        runner = app.runner
        return await read_queue(runner.store, runner.app, runner.cascade, size=size, share=share, seed=seed, limit=limit)


def _queue_lines(found: "list[Queued]") -> "Iterator[Text]":
    """The table of the decisions to label next."""
    from turnwise.cli.rendering import fit_table
    from turnwise.cli.terminal import one_line, width

    rows = [
        (
            each.picked if each.probability is None else f"random {each.probability:.4g}",
            f"{each.doubt:.2f}",
            one_line(each.decision.key.user),
            one_line(each.decision.key.id),
            str(each.decision.sequence),
            one_line(each.decision.selection.agent),
            one_line(each.decision.text, _TEXT_CHARACTERS),
        )
        for each in found
    ]
    return fit_table(("picked", "doubt", "user", "session", "#", "went to", "message"), rows, width(), right=("doubt", "#"))


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
        terminal.print_lines(_signal_lines(found))


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


def _signal_lines(found: "Collected") -> "Iterator[Text]":
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
    cases = asyncio.run(_labelled_cases(config, since))
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


async def _labelled_cases(config: Path | None, since: datetime | None) -> "list[Case]":
    from turnwise.cli.options import open_app
    from turnwise.learning.export_cases import labelled_cases

    async with open_app(config) as app:
        runner = app.runner
        default = runner.cascade.spec.default or runner.tree.root
        return [each async for each in labelled_cases(runner.store, runner.app, default, since=utc(since))]
