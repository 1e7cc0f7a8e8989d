"""`turnwise replay`: decides recorded messages again, and shows which decisions change."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.eval import check_writable, gates_of, write_report
from turnwise.cli.exits import FAILED, OK, UsageProblem
from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, UntilOption
from turnwise.cli.shell_completion import policy_names

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.learning.replay import ReplayResult
    from turnwise.ports.decisions import DecisionFilter
    from turnwise.selection.policy import PolicySpec

_Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME|FILE|VERSION",
        help="A policy by name, a YAML file with one, or the fingerprint in a decision; by default the configuration's.",
        autocompletion=policy_names,
    ),
]
_Agents = Annotated[
    Path | None,
    typer.Option(
        "--agents", metavar="FILE", help="Example requests that define the agents; by default the configuration's agents."
    ),
]
_Report = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report with pictures, one file.")]
_Min = Annotated[
    list[str] | None, typer.Option("--min", metavar="KEY=VALUE", help="Fail if a figure is lower, such as gain=0.")
]
_Max = Annotated[
    list[str] | None,
    typer.Option("--max", metavar="KEY=VALUE", help="Fail if a figure is higher, such as changed_share=0.05."),
]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("replay", short_help="Decide recorded messages again, and show what changes.")(replay)


def replay(
    policy: _Policy = None,
    agents: _Agents = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only decisions of this user.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Only decisions of this session of the user.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    labelled: Annotated[bool, typer.Option("--labelled", help="Only labelled decisions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many decisions, the newest ones.")] = 100_000,
    as_json: JsonOption = False,
    report: _Report = None,
    at_least: _Min = None,
    at_most: _Max = None,
    config: ConfigOption = None,
) -> None:
    """Decide recorded messages again, and show which decisions change. No agent runs, no model is asked, nothing is stored.

    Without --policy and --agents, the configuration's policy and agents decide again: what differs then is what changed in them
    since the decisions were recorded. Exits with 1 if a figure misses --min or --max.
    """
    from turnwise.cli import terminal
    from turnwise.cli.replay_output import result_lines
    from turnwise.cli.text_layout import wrap
    from turnwise.learning.evaluate import missed
    from turnwise.learning.replay import FIGURES
    from turnwise.learning.report.pages import replay_page
    from turnwise.ports.decisions import DecisionFilter

    if session is not None and user is None:
        raise UsageProblem("A session is found with its user.", fix="Pass --user, too.")
    gates = [*gates_of(at_least, "--min", keys=FIGURES), *gates_of(at_most, "--max", at_most=True, keys=FIGURES)]
    if report is not None:
        check_writable(report, "--report")
    wanted = DecisionFilter(since=since, until=until, labelled=True if labelled else None)
    found = asyncio.run(_replay(config, policy, agents, user, session, wanted, limit))
    data = found.data()
    if as_json:
        terminal.print_json(data)
    else:
        terminal.print_lines(wrap(result_lines(found, terminal.width()), terminal.width()))
    if report is not None:
        write_report(report, replay_page(found))
        terminal.print_note(f"report: {report}")
    failures = missed(gates, data)
    for failure in failures:
        terminal.print_error("replay.missed", failure.text)
    raise typer.Exit(FAILED if failures else OK)


async def _replay(
    config: Path | None,
    policy: str | None,
    agents: Path | None,
    user: str | None,
    session: str | None,
    wanted: "DecisionFilter",
    limit: int,
) -> "ReplayResult":
    """Decides recorded messages again, with another policy or other agents if given, and returns the differences."""
    from turnwise.cli.evaluation import prepare
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import work_bar
    from turnwise.learning.cases import read_examples
    from turnwise.learning.replay import ReplayCounter, places, replay as replayed

    tree = read_examples(agents) if agents else None
    async with open_app(config) as app:
        runner = app.runner
        spec = await _policy(app, policy) if policy else None
        key = runner.key(user, session) if user is not None and session is not None else None
        other = runner.cascade.with_policy(spec or runner.cascade.spec, tree=tree) if spec or tree else None
        cascade = other or runner.cascade
        try:
            await prepare(cascade)
            found = await places(runner.store, runner.app, user=user, key=key, wanted=wanted, limit=limit)
            counter, done = ReplayCounter(cascade), 0
            with work_bar("deciding again") as bar:

                def step(count: int) -> None:
                    nonlocal done
                    done += count
                    bar("deciding again", done, len(found))

                async for each in replayed(runner.store, cascade, found, step=step):
                    counter.add(each)
            return counter.result()
        finally:
            if other is not None:
                other.close()


async def _policy(app: "App", given: str) -> "PolicySpec":
    """Returns the policy of that name, in that file, or with that fingerprint."""
    from pydantic_core import from_json

    from turnwise.cli.evaluation import named_or_read
    from turnwise.selection.policy import recorded_policy

    runner = app.runner
    version = await runner.store.decisions.version(runner.app, "policy", given)
    if version is not None:
        return recorded_policy(version.name, from_json(version.body))
    return named_or_read(given)
