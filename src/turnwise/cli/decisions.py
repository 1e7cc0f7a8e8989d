"""`turnwise decisions`: searches decisions across sessions, shows one with all verdicts, and reports on them."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import decision_labels
from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import DEFAULT_USER, ConfigOption, JsonOption, SinceOption, UntilOption, UserOption, utc

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.facts.sessions import SessionKey
    from turnwise.learning.decision_report import DecisionReport
    from turnwise.ports.decisions import Decision, DecisionFilter, Decisions, Page

app = typer.Typer(help="Search, explain, label and export decisions.", rich_markup_mode=None, no_args_is_help=True)
decision_labels.register(app)

_MinConfidence = Annotated[
    float | None, typer.Option("--min-confidence", min=0, max=1, metavar="0..1", help="The lowest confidence.")
]
_MaxConfidence = Annotated[
    float | None, typer.Option("--max-confidence", min=0, max=1, metavar="0..1", help="The highest confidence.")
]
_Labelled = Annotated[
    bool | None, typer.Option("--labelled/--unlabelled", help="Only labelled decisions, or only unlabelled ones.")
]
_Policy = Annotated[
    str | None, typer.Option("--policy", metavar="POLICY", help="Only decisions by this policy: its fingerprint or name.")
]


@app.command("list")
def list_decisions(
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only decisions of this user.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Only decisions of this session of the user.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only decisions for this agent.")] = None,
    method: Annotated[str | None, typer.Option("--method", metavar="METHOD", help="Only decisions by this method.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    min_confidence: _MinConfidence = None,
    max_confidence: _MaxConfidence = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="OUTCOME", help="Only this outcome: chosen or clarify.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="AGENT", help="Only decisions with this label.")] = None,
    labelled: _Labelled = None,
    contradicted: Annotated[
        bool, typer.Option("--contradicted", help="Only decisions whose label is another agent than the selected one.")
    ] = False,
    policy: _Policy = None,
    words: Annotated[
        str, typer.Option("--words", metavar="WORDS", help="Only decisions for messages with all these words.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many decisions.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Continue where the previous page ended.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List decisions, newest first: which agent was selected for which message. All filters must match."""
    from turnwise.ports.decisions import DecisionFilter

    if outcome not in (None, "chosen", "clarify"):
        raise UsageProblem(f"There is no outcome {outcome!r}.", fix="Pass --outcome chosen or --outcome clarify.")
    wanted = DecisionFilter(
        agent=agent,
        method=method,
        since=since,
        until=until,
        min_confidence=min_confidence,
        max_confidence=max_confidence,
        outcome=outcome,
        label=label,
        labelled=labelled,
        contradicted=contradicted,
        policy=policy,
        words=words,
    )
    asyncio.run(_list(config, user, session, wanted, after, limit, as_json))


async def _list(
    config: "Path | None",
    user: str | None,
    session: str | None,
    wanted: "DecisionFilter",
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Prints a page of decisions that match the filter."""
    from turnwise.cli import terminal
    from turnwise.cli.decision_output import decision_data, decision_table
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        key = runner.key(user or DEFAULT_USER, session) if session is not None else None
        found, following = await _search(runner.store.decisions, runner.app, user, key, wanted, after, limit)
    if as_json:
        terminal.print_json({"decisions": [decision_data(each) for each in found], "next": following})
        return
    if not found:
        terminal.print_note(f"No decision of {runner.app} matches{' after that' if after else ''}.")
        return
    terminal.print_lines(decision_table(found, terminal.width()))
    if following is not None:
        terminal.print_note(f"There are more: --after {following}")


async def _search(
    decisions: "Decisions",
    app: str,
    user: str | None,
    key: "SessionKey | None",
    wanted: "DecisionFilter",
    after: str | None,
    limit: int,
) -> "tuple[list[Decision], str | None]":
    """Reads pages until there are `limit` decisions. Returns them with the cursor of the next page."""
    found: list[Decision] = []
    while True:
        page: Page[Decision] = await decisions.search(
            app, user=user if key is None else None, key=key, filter=wanted, after=after, limit=limit - len(found)
        )
        found += page.items
        after = page.next
        if after is None or len(found) >= limit:
            return found, after


@app.command(short_help="Show one decision, and why.")
def show(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    sequence: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="The number of the event that holds the decision.")],
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show one decision with all verdicts and exclusions, its label, and the stages and thresholds of its policy."""
    asyncio.run(_show(config, user, session, sequence, as_json))


async def _show(config: "Path | None", user: str, session: str, sequence: int, as_json: bool) -> None:
    """Prints one decision with all verdicts and the policy's options."""
    from turnwise.cli import terminal
    from turnwise.cli.decision_output import decision_data, decision_lines, policy_data, policy_lines
    from turnwise.cli.options import open_app
    from turnwise.cli.rendering import wrap
    from turnwise.facts.errors import InvocationMissing

    async with open_app(config) as turnwise:
        decisions, key = turnwise.runner.store.decisions, turnwise.runner.key(user, session)
        decision = await decisions.find(key, sequence)
        if decision is None:
            fix = f"`turnwise decisions list --user {user} --session {session}` lists the numbers."
            raise InvocationMissing(f"Session {session!r} has no decision at #{sequence}.", fix=fix)
        policy = await decisions.version(key.app, "policy", decision.selection.fingerprint)
    if as_json:
        terminal.print_json(decision_data(decision) | {"policy": policy_data(policy)})
        return
    terminal.print_lines(wrap([*decision_lines(decision), *policy_lines(decision.selection, policy)], terminal.width()))


_REPORT_LINES, _REPORT_TEXT = 5, 60


@app.command(short_help="Show misroutes, what falls to nobody, conflicts and drift.")
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

    from turnwise.cli.rendering import styled
    from turnwise.cli.result_output import percent
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
            for line in lines[:_REPORT_LINES]:
                yield Text(f"  {one_line(line, 2 * _REPORT_TEXT)}")
