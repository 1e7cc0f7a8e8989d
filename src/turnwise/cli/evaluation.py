"""From files of cases to an evaluation: agents and policy are found, thresholds tuned, every case is decided."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.cli.progress import counted, worked

if TYPE_CHECKING:
    from turnwise.learning.evaluate import History
    from turnwise.learning.results import Evaluation
    from turnwise.selection.cascade import Cascade
    from turnwise.selection.policy import PolicySpec


async def evaluate_files(
    cases: Sequence[Path],
    examples: Path | None,
    validation: Sequence[Path],
    policy: str | None,
    config: Path | None,
    history: "History",
) -> "Evaluation":
    """The evaluation of the cases in these files. Everything is read and built before anything is decided.

    Agents, policy and encoder are as in `cascade_for`. CaseError, PolicyError, or another ConfigError for what is wrong.
    """
    from turnwise.learning.cases import read_cases, unknown_agents
    from turnwise.learning.evaluate import count, evaluate
    from turnwise.learning.results import evaluation, subject_of
    from turnwise.learning.tune import decisions, tuned

    judged = read_cases(cases)
    tuned_on = read_cases(validation)
    async with cascade_for(examples, policy, config) as given:
        await wait_until_ready(given)
        cascade, changes = given, None
        if tuned_on:
            with counted("tuning on validation cases", decisions(cascade, tuned_on)) as step:
                cascade, changes = await tuned(cascade, tuned_on, history=history, step=step)
        with counted("deciding", count(judged)) as step:
            outcomes = await evaluate(cascade, judged, history=history, step=step)
        return evaluation(subject_of(cascade, history, unknown_agents(judged, cascade.tree), changes), outcomes)


@asynccontextmanager
async def cascade_for(examples: Path | None, policy: str | None, config: Path | None) -> "AsyncIterator[Cascade]":
    """The cascade that is meant, for the time of one command.

    The agents are those of the file `examples`, else of the configuration. The policy is the one that is named, else the
    configuration's; with examples and no configuration named, `default`, and the encoder is the one that is shipped. What is
    still being prepared when the command ends is given up.
    """
    from turnwise.cli.options import running
    from turnwise.learning.cases import read_examples
    from turnwise.matching.disk_cache import folder_from_environment
    from turnwise.selection.cascade import Cascade
    from turnwise.selection.named import named_policy

    spec = _policy(policy) if policy else None
    tree = read_examples(examples) if examples else None
    if tree is not None and config is None:
        with closing(Cascade(spec or named_policy("default"), tree, keep=folder_from_environment())) as cascade:
            yield cascade
        return
    async with running(config) as app:
        given = app.runner.cascade
        with closing(given if spec is None and tree is None else given.with_policy(spec or given.spec, tree=tree)) as cascade:
            yield cascade


async def wait_until_ready(cascade: "Cascade") -> None:
    """Returns when the cascade decides by all that can be fitted to its agents."""
    with worked("preparing") as work:
        await cascade.prepare(work)


def _policy(given: str) -> "PolicySpec":
    """The policy of that name, or in that file."""
    from turnwise.cli.exits import UsageProblem
    from turnwise.config.policies import read_policy_file
    from turnwise.selection.named import NAMED, named_policy

    if given in NAMED:
        return named_policy(given)
    if not Path(given).is_file():
        problem = f"There is no policy, and no file, named {given!r}."
        raise UsageProblem(problem, fix=f"Named policies: {', '.join(NAMED)}.")
    return read_policy_file(Path(given))
