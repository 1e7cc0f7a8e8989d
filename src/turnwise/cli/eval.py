"""`turnwise eval` and `turnwise replay`: measure decisions on labelled cases, and on recorded messages that are decided again.

Other commands that measure share its checks of figures, files and policies.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnwise.cli.exits import FAILED, OK, UsageProblem
from turnwise.cli.options import ConfigOption, JsonOption, SinceOption, UntilOption, policy_names
from turnwise.cli.progress_bars import progress_bar, work_bar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from turnwise.assemble import App
    from turnwise.learning.evaluate import Evaluation, Gate, History
    from turnwise.learning.replay import ReplayResult
    from turnwise.ports.decisions import DecisionFilter
    from turnwise.selection.cascade import Cascade
    from turnwise.selection.policy import PolicySpec

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME|FILE",
        help="A policy by name, or a YAML file that holds one.",
        autocompletion=policy_names,
    ),
]

HistoryOption = Annotated[
    Literal["own", "true"],
    typer.Option("--history", help="Which agent continues a dialogue: the one the policy chose (own) or the right one (true)."),
]
ByOption = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="KEY", help="Also show the figures by a key of the cases, such as part or kind.pending."),
]
ValidationOption = Annotated[
    list[Path] | None,
    typer.Option("--validation", metavar="FILE", help="Cases to tune thresholds on, before the others are scored."),
]
OutOfScopeOption = Annotated[
    float | None,
    typer.Option(
        "--out-of-scope",
        metavar="SHARE",
        help="With --validation: the share of your messages that are for no agent, such as 0.2. It weighs the accuracy.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command("eval", short_help="Measure how good the decisions are.")(evaluate)
    app.command("replay", short_help="Decide recorded messages again, and show what changes.")(replay)


def evaluate(
    cases: Annotated[list[Path], typer.Argument(help="Files of JSON lines: messages, dialogues, or both.", metavar="CASES…")],
    examples: Annotated[
        Path | None,
        typer.Option(
            "--examples", metavar="FILE", help="Example requests that define the agents; by default the configuration's agents."
        ),
    ] = None,
    validation: ValidationOption = None,
    out_of_scope: OutOfScopeOption = None,
    policy: PolicyOption = None,
    history: HistoryOption = "own",
    by: ByOption = None,
    as_json: JsonOption = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report with plots, one file.")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option("--min", metavar="KEY=VALUE", help="Fail if a figure is lower, such as accuracy=0.9.")
    ] = None,
    at_most: Annotated[
        list[str] | None, typer.Option("--max", metavar="KEY=VALUE", help="Fail if a figure is higher, such as ece=0.02.")
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Keep the figures in the app's audit log, which the console shows.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Measure how good the routing decisions are on labelled cases. No agent runs, and nothing is stored without --store.

    A case is {"text", "agent"}, with agent null if the message is out of scope; or a dialogue {"id", "turns": [{"system",
    "user", "agent"}]}. Cases take the same path as messages in production. Exits with 1 if a figure misses --min or --max.
    """
    from turnwise.cli import terminal
    from turnwise.cli.rendering import wrap
    from turnwise.cli.result_output import report_lines
    from turnwise.learning.evaluate import missed

    gates = [*gates_of(at_least, "--min"), *gates_of(at_most, "--max", at_most=True)]
    keys = keys_of(by)
    if report is not None:
        check_writable(report, "--report")
    check_share(out_of_scope, validation or [])
    work = evaluate_files(cases, examples, validation or [], policy, config, history, keys, out_of_scope)
    found = asyncio.run(keep(work, config, cases) if store else work)
    if as_json:
        terminal.print_json(found.data())
    else:
        terminal.print_lines(wrap(report_lines(found, terminal.width()), terminal.width()))
    if report is not None:
        from turnwise.learning.report import page

        write_report(report, page(found))  # rendered completely before the file is created
        terminal.print_note(f"report: {report}")
    failures = missed(gates, found.data())
    for failure in failures:
        terminal.print_error("eval.missed", failure.text)
    raise typer.Exit(FAILED if failures else OK)


_ReplayPolicy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME|FILE|VERSION",
        help="A policy by name, a YAML file with one, or the fingerprint in a decision; by default the configuration's.",
        autocompletion=policy_names,
    ),
]
_ReplayAgents = Annotated[
    Path | None,
    typer.Option(
        "--agents", metavar="FILE", help="Example requests that define the agents; by default the configuration's agents."
    ),
]
_ReplayReport = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report with pictures, one file.")
]
_ReplayMin = Annotated[
    list[str] | None, typer.Option("--min", metavar="KEY=VALUE", help="Fail if a figure is lower, such as gain=0.")
]
_ReplayMax = Annotated[
    list[str] | None,
    typer.Option("--max", metavar="KEY=VALUE", help="Fail if a figure is higher, such as changed_share=0.05."),
]


def replay(
    policy: _ReplayPolicy = None,
    agents: _ReplayAgents = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only decisions of this user.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Only decisions of this session of the user.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    labelled: Annotated[bool, typer.Option("--labelled", help="Only labelled decisions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many decisions, the newest ones.")] = 100_000,
    as_json: JsonOption = False,
    report: _ReplayReport = None,
    at_least: _ReplayMin = None,
    at_most: _ReplayMax = None,
    config: ConfigOption = None,
) -> None:
    """Decide recorded messages again, and show which decisions change. No agent runs, no model is asked, nothing is stored.

    Without --policy and --agents, the configuration's policy and agents decide again: what differs then is what changed in them
    since the decisions were recorded. Exits with 1 if a figure misses --min or --max.
    """
    from turnwise.cli import terminal
    from turnwise.cli.rendering import wrap
    from turnwise.cli.result_output import replay_lines
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
        terminal.print_lines(wrap(replay_lines(found, terminal.width()), terminal.width()))
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
    from turnwise.cli.options import open_app
    from turnwise.learning.cases import read_examples
    from turnwise.learning.replay import ReplayCounter, places, replay as replayed

    tree = read_examples(agents) if agents else None
    async with open_app(config) as app:
        runner = app.runner
        spec = await _policy_of(app, policy) if policy else None
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


async def _policy_of(app: "App", given: str) -> "PolicySpec":
    """Returns the policy of that name, in that file, or with that fingerprint."""
    from pydantic_core import from_json

    from turnwise.selection.policy import recorded_policy

    runner = app.runner
    version = await runner.store.decisions.version(runner.app, "policy", given)
    if version is not None:
        return recorded_policy(version.name, from_json(version.body))
    return named_or_read(given)


def check_share(share: float | None, validation: "Sequence[Path]") -> None:
    """Raises BadParameter for a share that is none, or that nothing uses."""
    if share is None:
        return
    if not 0.0 < share < 1.0:  # also refuses NaN
        raise typer.BadParameter("It is a share between 0 and 1, such as 0.2.", param_hint="'--out-of-scope'")
    if not validation:
        raise typer.BadParameter("It is used for tuning only: add --validation FILE.", param_hint="'--out-of-scope'")


def gates_of(
    given: list[str] | None, option: str, *, at_most: bool = False, keys: "Sequence[str] | None" = None
) -> "list[Gate]":
    """Parses the bounds of an option. `keys` are the figures that there are; None = those of an evaluation."""
    from turnwise.learning.evaluate import KEYS, gate_from

    try:
        return [gate_from(text, at_most=at_most, keys=keys or KEYS) for text in given or []]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from None


def keys_of(given: list[str] | None) -> list[str]:
    """Checks the keys of `--by`, and removes repeated ones."""
    from turnwise.learning.cases import MAX_KEY_CHARACTERS, MAX_KEYS

    keys = list(dict.fromkeys(given or []))
    if len(keys) > MAX_KEYS or any(not key or len(key) > MAX_KEY_CHARACTERS for key in keys):
        problem = f"At most {MAX_KEYS} keys, each of 1 to {MAX_KEY_CHARACTERS} characters."
        raise typer.BadParameter(problem, param_hint="'--by'")
    return keys


def check_writable(report: Path, option: str) -> None:
    """Checks the report's path before the work starts, because it takes long."""
    if report.is_dir() or not report.absolute().parent.is_dir():
        raise typer.BadParameter(
            f"{report} cannot be written: there is no such folder, or it is one.", param_hint=f"'{option}'"
        )


def write_report(path: Path, page: str | bytes) -> None:
    """Writes the page or the file. Raises UsageProblem when the file cannot be written."""
    try:
        path.write_bytes(page.encode() if isinstance(page, str) else page)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}.", fix="Name another file.") from None


async def evaluate_files(
    cases: Sequence[Path],
    examples: Path | None,
    validation: Sequence[Path],
    policy: str | None,
    config: Path | None,
    history: "History",
    by: Sequence[str] = (),
    out_of_scope: float | None = None,
) -> "Evaluation":
    """Evaluates the cases in these files. Reads and builds everything before the first decision.

    Args:
        cases: files of cases to score.
        examples: see `cascade_for`.
        validation: files of cases to tune thresholds on first; may be empty.
        policy: see `cascade_for`.
        config: see `cascade_for`.
        history: whether a dialogue continues with the agent that the policy chose or with the right one.
        by: keys of the cases to group the figures by.
        out_of_scope: share of the traffic that is out of scope, for the tuning; None = unknown.

    Raises:
        CaseError: a file of cases is invalid.
        PolicyError: the policy is invalid.
        ConfigError: something else in the configuration is invalid.
    """
    from turnwise.learning.cases import read_cases, unknown_agents
    from turnwise.learning.evaluate import count, evaluate, evaluation, subject_of
    from turnwise.learning.tune import decisions, tuned

    judged = read_cases(cases, by)
    tuned_on = read_cases(validation)
    async with cascade_for(examples, policy, config) as given:
        await prepare(given)
        cascade, changes = given, None
        if tuned_on:
            with progress_bar("tuning on validation cases", decisions(cascade, tuned_on)) as step:
                cascade, changes = await tuned(cascade, tuned_on, history=history, step=step, out_of_scope=out_of_scope)
        with progress_bar("deciding", count(judged)) as step:
            outcomes = await evaluate(cascade, judged, history=history, step=step)
        return evaluation(subject_of(cascade, history, unknown_agents(judged, cascade.tree), changes), outcomes)


async def keep(work: "Coroutine[Any, Any, Evaluation]", config: Path | None, cases: Sequence[Path]) -> "Evaluation":
    """Runs an evaluation, and keeps its figures in the audit log of the configuration's app.

    Raises:
        ConfigError: the session store keeps no records. Nothing was evaluated then.
    """
    from turnwise.cli.options import ACTOR, open_records
    from turnwise.learning.evaluate import keep_evaluation

    try:
        async with open_records(config) as records:
            found = await work
            await keep_evaluation(records.store.audit, records.app, ACTOR, found, [path.name for path in cases])
            return found
    finally:
        work.close()


@asynccontextmanager
async def cascade_for(examples: Path | None, policy: str | None, config: Path | None) -> "AsyncIterator[Cascade]":
    """Builds the cascade for one command, and closes it afterwards. Unfinished preparation is abandoned.

    Args:
        examples: a file that defines the agents; None = the configuration's agents.
        policy: a policy's name or file; None = the configuration's. With `examples` and without `config` it is `default`, and
            the encoder is the built-in one.
        config: the configuration file, if one was named.
    """
    from turnwise.cli.options import open_app
    from turnwise.learning.cases import read_examples
    from turnwise.matching.disk_cache import folder_from_environment
    from turnwise.selection.cascade import Cascade
    from turnwise.selection.named import named_policy

    spec = named_or_read(policy) if policy else None
    tree = read_examples(examples) if examples else None
    if tree is not None and config is None:
        with closing(Cascade(spec or named_policy("default"), tree, keep=folder_from_environment())) as cascade:
            yield cascade
        return
    async with open_app(config) as app:
        given = app.runner.cascade
        with closing(given if spec is None and tree is None else given.with_policy(spec or given.spec, tree=tree)) as cascade:
            yield cascade


async def prepare(cascade: "Cascade") -> None:
    """Fits everything that the cascade can fit to its agents, and shows the progress."""
    with work_bar("preparing") as work:
        await cascade.prepare(work)


def named_or_read(given: str) -> "PolicySpec":
    """Returns the policy of that name, or the one in that file. Raises UsageProblem, PolicyError."""
    from turnwise.config.policies import read_policy_file
    from turnwise.selection.named import NAMED, named_policy

    if given in NAMED:
        return named_policy(given)
    if not Path(given).is_file():
        problem = f"There is no policy, and no file, named {given!r}."
        raise UsageProblem(problem, fix=f"Named policies: {', '.join(NAMED)}.")
    return read_policy_file(Path(given))
