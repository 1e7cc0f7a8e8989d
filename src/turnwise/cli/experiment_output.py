"""Experiments as text for the terminal, and as JSON data."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from turnwise.cli.eval_output import percent
from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.cli.text_layout import fit_table
from turnwise.facts.experiments import METRICS, ExperimentRecord
from turnwise.learning.experiment_statistics import Paired
from turnwise.learning.experiments import Comparison, ExperimentResult


def record_data(record: ExperimentRecord) -> dict[str, Any]:
    """An experiment's state as JSON data."""
    data = record.model_dump(mode="json", exclude={"version", "looked_at", "experiment"})
    return {**record.experiment.model_dump(mode="json"), **data}


def state_text(record: ExperimentRecord) -> str:
    """The state in words."""
    promoted = f": {record.promoted}" if record.promoted is not None else ""
    return f"{record.state.replace('_', ' ')}{promoted}"


def record_table(found: Sequence[ExperimentRecord], width: int | None = None) -> Iterator[Text]:
    """The lines of a table of experiments."""
    columns = ("experiment", "state", "unit", "metric", "arms", "started (UTC)", "ended (UTC)")
    rows = [
        (
            one_line(record.name),
            one_line(state_text(record)),
            record.experiment.unit,
            record.experiment.metric,
            one_line(", ".join(arm.name for arm in record.experiment.arms)),
            f"{record.started_at:%Y-%m-%d %H:%M}",
            f"{record.ended_at:%Y-%m-%d %H:%M}" if record.ended_at is not None else "",
        )
        for record in found
    ]
    return fit_table(columns, rows, width)


def result_lines(found: ExperimentResult, width: int | None = None) -> Iterator[Text]:
    """The lines of an analysis: the paired comparison, the arms, their differences, and what is wrong."""
    record = found.record
    yield styled(f"experiment {record.name}: {state_text(record)}, since {record.started_at:%Y-%m-%d %H:%M} UTC", "bold")
    if record.reason:
        yield styled(one_line(record.reason), "yellow")
    if found.is_broken:
        yield styled(f"The arms do not have their shares of the units (p {found.ratio_p:.1g}): nothing below counts.", "red")
    if found.paired is not None:
        yield from paired_lines(found.paired)
    for each in found.breaks:
        yield styled(f"break: the agents' definitions changed at {each.at:%Y-%m-%d %H:%M} UTC ({each.tree_version})", "yellow")
    yield Text()
    yield from _arms(found, width)
    yield Text()
    yield from (_comparison_line(found, each) for each in found.comparisons)
    winner = found.winner
    yield styled(f"winner: {winner}" if winner is not None else "no winner yet", "green" if winner is not None else "dim")


def paired_lines(found: Paired) -> Iterator[Text]:
    """The lines of a paired comparison."""
    share = percent(found.differ / found.decisions if found.decisions else None)
    count = f"{found.differ:,} of {found.decisions:,} messages ({share})"
    yield styled(f"on the same messages: {found.first} and {found.second} decide {count} differently", "")
    if found.differ and not found.labelled:
        yield styled("none of these has a label that counts, so it is not known which is right more often", "dim")
    if not found.labelled:
        return
    wins = f"{found.first} was right more often in {found.first_units:,} units, {found.second} in {found.second_units:,}"
    better = f"; {found.better} is better" if found.better is not None else ""
    colour = "green" if found.better is not None else "dim"
    yield styled(f"of {found.labelled:,} labelled ones: {wins} (p {found.p:.2g}{better})", colour)


def _arms(found: ExperimentResult, width: int | None) -> Iterator[Text]:
    """The table of an experiment's arms."""
    unit = f"{found.record.experiment.unit}s"
    columns = ("arm", "policy", "weight", unit, "ripe", "decisions", *METRICS)
    rows = [
        (
            one_line(arm.name),
            one_line(arm.policy or "the app's"),
            f"{arm.weight:g}",
            f"{arm.units:,}",
            f"{arm.ripe:,}",
            f"{arm.decisions:,}",
            *(percent(arm.means[metric]) for metric in METRICS),
        )
        for arm in found.arms
    ]
    return fit_table(columns, rows, width, right=("weight", unit, "ripe", "decisions", *METRICS))


def _comparison_line(found: ExperimentResult, each: Comparison) -> Text:
    """The difference of one metric between an arm and the control, with its confidence interval."""
    experiment = found.record.experiment
    about = f"{each.metric}: {each.arm} − {experiment.control.name}"
    is_primary = each.metric == experiment.metric
    if each.estimate is None:
        return styled(f"{about}: fewer than {experiment.least_units:,} ripe units in an arm", "dim")
    line = f"{about}: {_points(each.estimate)} points, surely {_points(each.low)} to {_points(each.high)}"
    sure = each.low > 0 or each.high < 0
    colour = ("green" if each.low > 0 else "red") if sure else "" if is_primary else "dim"
    return styled(f"{line}{' (primary)' if is_primary else ''}", colour)


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"
