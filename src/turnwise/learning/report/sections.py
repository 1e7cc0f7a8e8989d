"""The report's tables: tiles with measures, methods, confusions, agents."""

from collections.abc import Iterable, Mapping, Sequence

from turnwise.learning.measures import ByGroup, Confusion, Measures
from turnwise.learning.outcomes import Outcome
from turnwise.learning.report.heatmap import label
from turnwise.learning.report.markup import Child, Markup, joined, quoted, tag

PAIRS, EXAMPLES, CHARACTERS, AGENTS = 25, 4, 160, 300


def percent(value: float | None) -> str:
    """Formats a share as a percentage."""
    return "–" if value is None else f"{100 * value:.1f} %"


def tiles(measures: Measures) -> Markup:
    """Returns the tiles with the measures, the first one larger. Missing measures are left out."""
    nobody, latency = measures.nobody, measures.latency_ms
    points = None if measures.ece is None else f"{100 * measures.ece:.1f}"
    every: list[tuple[str, str | None, str]] = [
        ("right", percent(measures.accuracy), f"of {measures.cases:,} cases"),
        ("best-scored agent", _known(measures.in_scope_accuracy), "is right, in scope"),
        ("among the best three", _known(measures.top3_accuracy), "is the right one"),
        ("when the agent changes", _known(measures.switch_accuracy), "turns are right"),
        ("when it stays", _known(measures.stay_accuracy), "turns are right"),
        ("right after a mistake", _known(measures.after_error), "turns of dialogues"),
        ("further agents: found", _known(measures.also_recall), f"right: {percent(measures.also_precision)}"),
        ("A → B → A", _known(measures.bounce_rate), f"changes in all: {percent(measures.switch_rate)}"),
        ("out of scope: F1", _known(nobody.f1), f"recall: {percent(nobody.recall)}"),
        ("out of scope: AUROC", _known(nobody.auroc), "50 % is chance"),
        ("calibration error", points, "points, in 15 bins"),
        ("latency", None if latency.p50 is None else f"{latency.p50:.2f} ms", f"p99 {latency.p99 or 0:.2f} ms"),
    ]
    return tile_row(every)


def tile_row(values: Iterable[tuple[str, str | None, str]]) -> Markup:
    """Returns tiles of (name, value, note), the first one larger. Tiles without a value are left out."""
    shown = [
        tag("div", tag("b", value), tag("span", name), tag("small", about), class_="tile")
        for name, value, about in values
        if value is not None
    ]
    return tag("div", *shown, class_="tiles")


def _known(value: float | None) -> str | None:
    return None if value is None else percent(value)


def methods(measures: Measures) -> Markup:
    """Returns the table of methods: number of decisions, accuracy, and a bar."""
    most = max((each.cases for each in measures.by_method.values()), default=1)
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", f"{each.cases:,}", class_="number"),
            tag("td", percent(each.accuracy), class_="number"),
            tag("td", _split_bar(each.cases / most, each.accuracy), class_="wide"),
        )
        for name, each in measures.by_method.items()
    ]
    return table(("decided by", "cases", "right", ""), rows)


def groups(key: str, those: Mapping[str, ByGroup]) -> Markup:
    """Returns the table of one key's groups of cases."""
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", f"{each.cases:,}", class_="number"),
            tag("td", percent(each.accuracy), class_="number"),
            tag("td", percent(each.after_error), class_="number"),
        )
        for name, each in those.items()
    ]
    return table((key, "cases", "right", "right after a mistake"), rows)


def _split_bar(length: float, right: float) -> Markup:
    good = tag("i", class_="good", style=f"width:{100 * right:.1f}%")
    return tag("span", good, class_="split", style=f"width:{max(100 * length, 0.8):.1f}%")


def confusions(pairs: Sequence[Confusion], scored: Iterable[Outcome]) -> Markup:
    """Returns the table of the most frequent mistakes with example messages."""
    texts: dict[tuple[str | None, str | None], list[Outcome]] = {}
    for outcome in scored:
        if not outcome.right:
            texts.setdefault((outcome.expected, outcome.chosen), []).append(outcome)
    rows = []
    for pair in pairs[:PAIRS]:
        said = texts[pair.expected, pair.chosen]
        rows.append(
            tag(
                "tr",
                tag("td", f"{pair.count:,}", class_="number"),
                tag("td", _agent(pair.expected)),
                tag("td", _agent(pair.chosen)),
                tag("td", _examples(said), class_="said"),
            )
        )
    return table(("cases", "belongs to", "went to", "messages, and reasons of the decisions"), rows)


def _examples(said: Sequence[Outcome]) -> Markup:
    lines = []
    for outcome in said[:EXAMPLES]:
        why: Child = tag("small", quoted(outcome.reason, CHARACTERS)) if outcome.reason else None
        lines.append(tag("li", quoted(outcome.text, CHARACTERS), why))
    return tag("ul", *lines)


def _agent(name: str | None) -> Markup:
    return tag("em", "out of scope") if name is None else tag("bdi", name)


def agents(scored: Sequence[Outcome]) -> Markup:
    """Returns the table of all agents with recall and precision, worst first."""
    own: dict[str | None, list[bool]] = {}
    got: dict[str | None, list[bool]] = {}
    for outcome in scored:
        own.setdefault(outcome.expected, []).append(outcome.right)
        got.setdefault(outcome.chosen, []).append(outcome.right)
    worst = sorted(own.keys() | got.keys(), key=lambda name: (_share(own.get(name)), -len(own.get(name, [])), label(name)))
    rows = [
        tag(
            "tr",
            tag("td", _agent(name)),
            tag("td", f"{len(own.get(name, [])):,}", class_="number"),
            tag("td", percent(_share(own.get(name))) if name in own else "–", class_="number"),
            tag("td", percent(_share(got.get(name))) if name in got else "–", class_="number"),
            tag("td", _split_bar(1.0, _share(own.get(name))) if name in own else None, class_="wide"),
        )
        for name in worst[:AGENTS]
    ]
    return table(("agent", "cases", "recall", "precision", ""), rows)


def _share(rights: Sequence[bool] | None) -> float:
    return sum(rights) / len(rights) if rights else 2.0


def table(heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    """Returns a table with a head. It scrolls where it is too wide."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    return tag("div", tag("table", head, tag("tbody", joined(*rows))), class_="scroll")
