"""`turnwise eval`: how good the decisions are on cases whose right answer is known."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnwise.cli.completing import policy_names
from turnwise.cli.exits import FAILED, OK
from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from turnwise.learning.gates import Gate
    from turnwise.learning.results import Evaluation

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME|FILE",
        help="A policy by name, or a YAML file that holds one.",
        autocompletion=policy_names,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command("eval", short_help="Measure how good the decisions are.")(evaluate)


def evaluate(
    cases: Annotated[list[Path], typer.Argument(help="Files of JSON lines: messages, dialogues, or both.", metavar="CASES…")],
    examples: Annotated[
        Path | None,
        typer.Option("--examples", metavar="FILE", help="The agents, by example requests; without it, the configuration's."),
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option("--validation", metavar="FILE", help="Cases to tune thresholds on, before the others are scored."),
    ] = None,
    policy: PolicyOption = None,
    history: Annotated[
        Literal["own", "true"],
        typer.Option("--history", help="Who speaks on in a dialogue: whom the policy chose (own), or should have (true)."),
    ] = "own",
    as_json: JsonOption = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report with plots, one file.")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option("--min", metavar="KEY=VALUE", help="Fail when a figure is below: accuracy=0.9.")
    ] = None,
    at_most: Annotated[
        list[str] | None, typer.Option("--max", metavar="KEY=VALUE", help="Fail when a figure is above: ece=0.02.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Measure how good the decisions are, on cases whose right answer is known. No agent runs, nothing is stored.

    A case is {"text", "agent"}, agent null when nobody should take it; or a dialogue {"id", "turns": [{"system", "user",
    "agent"}]}. Every message goes through the same decision as in use. The exit code is 1 when a figure misses --min or --max.
    """
    from turnwise.cli import scores, terminal
    from turnwise.cli.judging import evaluated
    from turnwise.cli.wrapping import wrapped
    from turnwise.learning.gates import missed

    gates = [*_gates(at_least, "--min"), *_gates(at_most, "--max", at_most=True)]
    if report is not None:
        _refuse_unwritable(report)
    found = asyncio.run(evaluated(cases, examples, validation or [], policy, config, history))
    data = found.data()
    if as_json:
        terminal.print_json(data)
    else:
        terminal.say_all(wrapped(scores.shown(found, terminal.width()), terminal.width()))
    if report is not None:
        _write_report(report, found)
        terminal.note(f"report: {report}")
    failures = missed(gates, data)
    for failure in failures:
        terminal.complain("eval.missed", scores.missed_line(failure))
    raise typer.Exit(FAILED if failures else OK)


def _gates(given: list[str] | None, option: str, *, at_most: bool = False) -> "list[Gate]":
    from turnwise.learning.gates import gate_from

    try:
        return [gate_from(text, at_most=at_most) for text in given or []]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from None


def _refuse_unwritable(report: Path) -> None:
    """An evaluation takes its time: that its report has no place is said before."""
    if report.is_dir() or not report.absolute().parent.is_dir():
        raise typer.BadParameter(f"{report} cannot be written: there is no such folder, or it is one.", param_hint="'--report'")


def _write_report(path: Path, found: "Evaluation") -> None:
    from turnwise.cli.exits import UsageProblem
    from turnwise.learning.report import page

    try:
        written = page(found).encode()  # all of it, before there is a file
        path.write_bytes(written)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}.", fix="Name another file.") from None
