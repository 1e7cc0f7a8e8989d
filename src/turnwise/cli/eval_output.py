"""An evaluation as text for the terminal."""

from collections.abc import Iterable, Iterator, Mapping

from rich.text import Text

from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.cli.text_layout import fit_table
from turnwise.learning.evaluate import Evaluation, Subject
from turnwise.learning.measures import ByGroup, Confusion, Measures

CONFUSIONS_SHOWN, METHODS_SHOWN, UNKNOWN_SHOWN = 10, 12, 5
_BAR, _NAME, _EXAMPLE = 24, 34, 60

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
