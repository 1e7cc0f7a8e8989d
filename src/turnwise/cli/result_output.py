"""Results as text for the terminal: of evaluations, replays, trials and experiments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from turnwise.cli.rendering import fit_table, styled
from turnwise.cli.terminal import one_line
from turnwise.learning.evaluate import Evaluation, Subject
from turnwise.learning.experiment_statistics import Paired
from turnwise.learning.experiments import Comparison, ExperimentResult
from turnwise.learning.measures import ByGroup, Confusion, Measures
from turnwise.learning.replay import OBSTACLES, ReplayResult
from turnwise.ports.experiments import METRICS, ExperimentRecord

CONFUSIONS_SHOWN, METHODS_SHOWN, UNKNOWN_SHOWN = 10, 12, 5
_BAR, _NAME, _EXAMPLE = 24, 34, 60
FLIPS_SHOWN, FLIP_CHARACTERS = 20, 60

_WIDTH_WITH_BARS = 90
_EIGHTHS = " ▏▎▍▌▋▊▉"


def report_lines(found: Evaluation, width: int | None = None) -> Iterator[Text]:
    """The lines of the whole report, section by section. A narrow terminal gets no bars."""
    bars = width is None or width >= _WIDTH_WITH_BARS
    measures, subject = found.measures, found.subject
    yield _headline(measures, subject)
    yield from _notes(subject)
    yield Text()
    yield from _accuracy_rows(found, width, bars=bars)
    yield Text()
    yield _figures_line(measures)
    yield Text()
    yield from _methods(measures, width, bars=bars)
    for key, groups in measures.by.items():
        yield Text()
        yield from _groups(key, groups, width)
    if measures.confusions:
        yield Text()
        yield from _confusions(measures.confusions, width)


def percent(value: float | None) -> str:
    """A share as a percentage; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f} %"


def _headline(measures: Measures, subject: Subject) -> Text:
    """The first lines: the accuracy, the agents, the policy."""
    line = styled(percent(measures.accuracy), "bold green" if measures.cases else "bold")
    line.append(f" of {measures.cases:,} cases reached the right agent", style="bold")
    about = f"{subject.agents:,} agents, {subject.examples:,} examples"
    decided = f"policy {one_line(subject.policy)} ({subject.fingerprint}) · history {subject.history}"
    line.append(f"\n{about} · {decided}", style="dim")
    return line


def _notes(subject: Subject) -> Iterator[Text]:
    """Notes on the evaluated subject: tuning, and cases that name unknown agents."""
    if subject.tuning is not None:
        yield styled(f"tuned on validation: {one_line(subject.tuning)}", "dim")
    if subject.unknown:
        names = [f"{one_line(name)} ({count})" for name, count in subject.unknown.items()]
        more = f" and {len(names) - UNKNOWN_SHOWN} more" if len(names) > UNKNOWN_SHOWN else ""
        yield styled(f"cases that name unknown agents count as wrong: {', '.join(names[:UNKNOWN_SHOWN])}{more}", "yellow")


def _accuracy_rows(found: Evaluation, width: int | None, *, bars: bool) -> Iterator[Text]:
    """The table of accuracies, with bars if wanted."""
    measures = found.measures
    scored = [outcome for outcome in found.outcomes if outcome.scored]
    in_scope = sum(outcome.expected is not None for outcome in scored)
    rows: list[tuple[str, float | None, str]] = [
        ("right", measures.accuracy, f"{measures.cases:,} cases"),
        ("best-scored agent", measures.in_scope_accuracy, f"{in_scope:,} that have an agent"),
        ("among the three best", measures.top3_accuracy, "the same"),
        ("where the agent changes", measures.switch_accuracy, "turns of dialogues"),
        ("where it stays", measures.stay_accuracy, "turns of dialogues"),
        ("right after a wrong choice", measures.after_error, "turns of dialogues"),
        ("further agents: found", measures.also_recall, "labelled with `also`"),
        ("further agents: right", measures.also_precision, "named by decisions"),
        ("out of scope: found", measures.nobody.recall, f"{len(scored) - in_scope:,} that are out of scope"),
    ]
    cells: list[list[str | Text]] = [
        [label, styled(percent(value), "bold"), *([_bar(value)] if bars else []), styled(of, "dim")]
        for label, value, of in rows
        if value is not None
    ]
    yield from fit_table(("of the cases", "share", *([""] if bars else []), "of"), cells, width, right=("share",))


def _bar(value: float) -> Text:
    eighths = round(value * _BAR * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return styled(drawn, "cyan").append("·" * (_BAR - len(drawn)), style="dim")


def _figures_line(measures: Measures) -> Text:
    """The line of further figures: out of scope, calibration, changes of agent, latency."""
    nobody, latency = measures.nobody, measures.latency_ms
    parts: list[tuple[str, str]] = []
    if nobody.auroc is not None:
        parts += [("out of scope: AUROC", percent(nobody.auroc)), ("F1", percent(nobody.f1))]
    if measures.ece is not None:
        parts.append(("calibration error", f"{100 * measures.ece:.1f} points"))
    if measures.switch_rate is not None:
        parts += [("changes of agent", percent(measures.switch_rate)), ("A→B→A", percent(measures.bounce_rate))]
    if latency.p50 is not None and latency.p99 is not None:
        parts.append(("a decision", f"{latency.p50:.2f} ms, p99 {latency.p99:.2f}"))
    line = Text()
    for number, (label, value) in enumerate(parts):
        line.append(("  " if number else "") + label + " ", style="dim").append(value)
    return line


def _methods(measures: Measures, width: int | None, *, bars: bool) -> Iterator[Text]:
    """The table of accuracies by selection method."""
    rows: list[list[str | Text]] = [
        [
            one_line(method, _NAME),
            f"{those.cases:,}",
            styled(percent(those.accuracy), "bold"),
            *([_bar(those.accuracy)] if bars else []),
        ]
        for method, those in [*measures.by_method.items()][:METHODS_SHOWN]
    ]
    yield from fit_table(("decided by", "cases", "right", *([""] if bars else [])), rows, width, right=("cases", "right"))


def _groups(key: str, groups: Mapping[str, ByGroup], width: int | None) -> Iterator[Text]:
    """The table of accuracies by the values of one attribute of the cases."""
    rows: list[list[str | Text]] = [
        [one_line(name, _NAME), f"{those.cases:,}", styled(percent(those.accuracy), "bold"), percent(those.after_error)]
        for name, those in groups.items()
    ]
    headings = (one_line(key, _NAME), "cases", "right", "after a wrong choice")
    yield from fit_table(headings, rows, width, right=headings[1:])


def _confusions(confusions: Iterable[Confusion], width: int | None) -> Iterator[Text]:
    """The table of agents that were mistaken for each other, most frequent first."""
    every = list(confusions)
    rows: list[list[str | Text]] = [
        [
            _agent(each.expected),
            _agent(each.chosen),
            str(each.count),
            styled(one_line(each.example, _EXAMPLE), "dim"),
        ]
        for each in every[:CONFUSIONS_SHOWN]
    ]
    yield from fit_table(("belongs to", "went to", "cases", "such as"), rows, width, right=("cases",))
    if len(every) > CONFUSIONS_SHOWN:
        rest = sum(each.count for each in every[CONFUSIONS_SHOWN:])
        yield styled(f"… {len(every) - CONFUSIONS_SHOWN} more pairs, {rest} cases", "dim")


def _agent(name: str | None) -> Text:
    return styled("nobody", "italic yellow") if name is None else Text(one_line(name, _NAME))


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


def experiment_lines(found: ExperimentResult, width: int | None = None) -> Iterator[Text]:
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


def replay_lines(found: ReplayResult, width: int | None = None) -> Iterator[Text]:
    """The lines of a replay: the share that changes, labelled accuracy, the changes, and what could not be decided again."""
    yield _replay_headline(found)
    yield styled(f"policy {one_line(found.policy)} ({found.fingerprint})", "dim")
    yield from _label_lines(found)
    if found.other_inputs:
        note = f"{found.other_inputs:,} were recorded under another policy, other agents or other examples"
        yield styled(note, "dim")
    yield from _changes(found, width)


def trial_lines(found: ReplayResult, width: int | None = None) -> Iterator[Text]:
    """The lines of a trial's decisions, as those of a replay."""
    yield _replay_headline(found)
    yield from _label_lines(found)
    yield from _changes(found, width)


def _replay_headline(found: ReplayResult) -> Text:
    changed = found.replayed - found.equal
    return styled(f"{changed:,} of {found.replayed:,} decisions change ({percent(found.share(changed))})", "bold")


def _label_lines(found: ReplayResult) -> Iterator[Text]:
    if found.labelled:
        before, after = percent(found.accuracy(found.right_before)), percent(found.accuracy(found.right_after))
        colour = "green" if (found.gain or 0) >= 0 else "red"
        points = f"{100 * (found.gain or 0):+.1f} points"
        yield styled(f"right: {before} before, {after} now ({points}), of {found.labelled:,} labelled decisions", colour)


def _changes(found: ReplayResult, width: int | None) -> Iterator[Text]:
    """The lines of what could not be decided again, and of changed decisions."""
    for reason, count in found.obstacles.items():
        yield styled(f"not decided again: {count:,} ({OBSTACLES[reason]})", "yellow")
    if found.flips:
        yield Text()
        yield from _flips(found, width)
    if (more := len(found.flips) - FLIPS_SHOWN) > 0:
        yield styled(f"and {more} more {'pair' if more == 1 else 'pairs'}; --json has all", "dim")


def _flips(found: ReplayResult, width: int | None) -> Iterator[Text]:
    """The table of changed decisions by old and new agent."""
    columns = ("decisions", "from", "to", "now right", "now wrong", "a message")
    rows = [
        (
            f"{flip.count:,}",
            one_line(flip.before),
            one_line(flip.after),
            f"{flip.right:,}",
            f"{flip.wrong:,}",
            one_line(flip.examples[0], FLIP_CHARACTERS) if flip.examples else "",
        )
        for flip in found.flips[:FLIPS_SHOWN]
    ]
    return fit_table(columns, rows, width, right=("decisions", "now right", "now wrong"))
