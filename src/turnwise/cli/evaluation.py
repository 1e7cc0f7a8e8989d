"""Evaluates files of cases: builds the cascade, tunes its thresholds, and decides every case."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.cli.progress_bars import progress_bar, work_bar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from turnwise.learning.evaluate import Evaluation, History
    from turnwise.selection.cascade import Cascade
    from turnwise.selection.policy import PolicySpec


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
    from turnwise.cli.records import ACTOR, open_records
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
    from turnwise.cli.exits import UsageProblem
    from turnwise.config.policies import read_policy_file
    from turnwise.selection.named import NAMED, named_policy

    if given in NAMED:
        return named_policy(given)
    if not Path(given).is_file():
        problem = f"There is no policy, and no file, named {given!r}."
        raise UsageProblem(problem, fix=f"Named policies: {', '.join(NAMED)}.")
    return read_policy_file(Path(given))
