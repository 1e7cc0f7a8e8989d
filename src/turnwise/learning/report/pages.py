"""The pages of an evaluation, a replay, and an experiment, as self-contained HTML, and the parts that all reports share."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from turnwise.facts.experiments import METRICS
from turnwise.learning.evaluate import Evaluation, Subject
from turnwise.learning.experiments import ArmResult, Comparison, ExperimentResult, Point
from turnwise.learning.measures import ByGroup, Confusion, Measures, Outcome
from turnwise.learning.replay import OBSTACLES, Flip, ReplayResult
from turnwise.learning.report.markup import Child, Markup, joined, quoted, tag
from turnwise.learning.report.plots import (
    AGENTS,
    Counts,
    Frame,
    coverage_plot,
    draw_map,
    heat_map,
    label,
    latency_plot,
    line,
    plot,
    reliability_plot,
    round_step,
    turns_plot,
)

STYLE = Path(__file__).with_name("page.css")

PAIRS, EXAMPLES, CHARACTERS, LISTED_AGENTS, FLIPS = 25, 4, 160, 300, 50

_AT_EVERY_LOOK = (
    "The intervals hold at every look: the true difference is outside of any of them with the probability alpha at most."
)
_BOUNDS = ((1, "curve"), (2, "ideal"), (3, "ideal"))


def page(found: Evaluation) -> str:
    """Returns the evaluation as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    return document(f"{percent(found.measures.accuracy)} right · Turnwise evaluation", _evaluation_body(found))


def replay_page(found: ReplayResult) -> str:
    """Returns the replay as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    changed = found.replayed - found.equal
    return document(f"{changed:,} of {found.replayed:,} decisions change · Turnwise replay", _replay_body(found, changed))


def experiment_page(found: ExperimentResult) -> str:
    """Returns the analysis as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    return document(f"{found.record.name} · Turnwise experiment", _experiment_body(found))


def document(title: str, body: Markup) -> str:
    """Returns a self-contained HTML document in the style of the reports."""
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Markup(STYLE.read_text("utf-8"))),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def _evaluation_body(found: Evaluation) -> Markup:
    """The page's content."""
    scored = [outcome for outcome in found.outcomes if outcome.scored]
    in_scope = [outcome for outcome in scored if outcome.expected is not None]
    parts: list[Child] = [tag("header", tag("h1", "Evaluation"), *_subject(found.subject))]
    parts.append(tiles(found.measures))
    plots: list[Child] = []
    if in_scope:
        note = "On the dashed line, 80 % of the decisions with a confidence of 80 % are right. Grey: number of decisions."
        plots.append(figure("Confidence calibration", reliability_plot(in_scope), note))
    if scored:
        note = "Precision if only the most confident decisions were accepted. The dot is the policy as it is."
        plots.append(figure("Coverage and precision", coverage_plot(scored), note))
    turns = turns_plot(scored)
    if turns:
        plots.append(figure("Accuracy by turn", turns, "The share of right decisions by the turn of the dialogue."))
    if found.outcomes:
        times = [outcome.ms for outcome in found.outcomes]
        plots.append(figure("Decision latency", latency_plot(times), "On one thread of this machine."))
    plots.append(tag("figure", tag("h2", "Decisions by method"), methods(found.measures)))
    plots += [tag("figure", tag("h2", f"By {key}"), groups(key, those)) for key, those in found.measures.by.items()]
    parts.append(tag("div", *plots, class_="plots"))
    parts += _mistakes(found, scored)
    note = "The documentation explains the measures, under evaluation."
    parts.append(tag("footer", note))
    return tag("main", *parts)


def _mistakes(found: Evaluation, scored: Sequence[Outcome]) -> list[Child]:
    """The sections on mistakes: confusion map, most frequent pairs, all agents."""
    drawn = heat_map(scored)
    if drawn is None:
        return [section("Mistakes", tag("p", "No mistakes."))]
    note = (
        f"The {AGENTS} agents with the most mistakes. Rows: expected agent. Columns: chosen agent. "
        "Red with a number: mistakes; green: right. Agents that are often confused are next to each other."
    )
    return [
        section("Confusion map", tag("p", note), tag("div", drawn, class_="scroll")),
        section("Most frequent mistakes", confusions(found.measures.confusions, scored)),
        tag("section", tag("details", tag("summary", "All agents, worst first"), agents(scored))),
    ]


def _subject(subject: Subject) -> list[Markup]:
    """The lines below the heading: agents, policy, tuning, unknown agents."""
    facts = [
        f"{subject.agents:,} agents",
        f"{subject.examples:,} examples",
        f"policy {subject.policy} ({subject.fingerprint})",
        f"dialogues continue with the {'chosen' if subject.history == 'own' else 'expected'} agent",
    ]
    lines = [tag("p", " · ".join(facts))]
    if subject.tuning is not None:
        lines.append(tag("p", f"Tuned on validation cases: {subject.tuning}"))
    if subject.unknown:
        names = ", ".join(f"{name} ({count})" for name, count in subject.unknown.items())
        lines.append(tag("p", f"Cases name agents that do not exist, which counts as wrong: {names}", class_="warning"))
    return lines


def figure(title: str, drawn: Markup, note: str) -> Markup:
    """Returns a plot with its title and a note."""
    return tag("figure", tag("h2", title), drawn, tag("figcaption", note))


def section(title: str, *parts: Child) -> Markup:
    """Returns a section with its title."""
    return tag("section", tag("h2", title), joined(*parts))


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
        for name in worst[:LISTED_AGENTS]
    ]
    return table(("agent", "cases", "recall", "precision", ""), rows)


def _share(rights: Sequence[bool] | None) -> float:
    return sum(rights) / len(rights) if rights else 2.0


def table(heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    """Returns a table with a head. It scrolls where it is too wide."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    return tag("div", tag("table", head, tag("tbody", joined(*rows))), class_="scroll")


def _replay_body(found: ReplayResult, changed: int) -> Markup:
    """The page's content."""
    about = f"policy {found.policy} ({found.fingerprint}) · {found.decisions:,} decisions"
    parts: list[Child] = [tag("header", tag("h1", "Replay"), tag("p", about)), _replay_tiles(found, changed)]
    if found.other_inputs:
        note = f"{found.other_inputs:,} decisions were recorded under another policy, other agents or other examples."
        parts.append(tag("p", note))
    pairs: Counts = Counter({(flip.before, flip.after): flip.count for flip in found.flips})
    drawn = draw_map(pairs, "Map of changes: agent before by agent now.")
    if drawn is None:
        parts.append(section("Changes", tag("p", "No decision changes.")))
    else:
        note = "Rows: the agent that got the messages. Columns: the agent that would get them now."
        parts.append(section("Map of changes", tag("p", note), tag("div", drawn, class_="scroll")))
        parts.append(section("Changes, most frequent first", _flips(found.flips)))
    if found.obstacles:
        parts.append(section("Not decided again", _obstacles(found)))
    return tag("main", *parts)


def _replay_tiles(found: ReplayResult, changed: int) -> Markup:
    """The row of figures."""
    labelled = f"of {found.labelled:,} labelled decisions"
    before, after = found.accuracy(found.right_before), found.accuracy(found.right_after)
    gain = None if found.gain is None else f"{100 * found.gain:+.1f}"
    return tile_row(
        [
            ("change", percent(found.share(changed)), f"{changed:,} of {found.replayed:,}"),
            ("right before", None if before is None else percent(before), labelled),
            ("right now", None if after is None else percent(after), labelled),
            ("gain", gain, "points, on labelled decisions"),
        ]
    )


def _flips(flips: Sequence[Flip]) -> Markup:
    """The table of changed decisions by pair of agents."""
    rows = [
        tag(
            "tr",
            tag("td", f"{flip.count:,}", class_="number"),
            tag("td", tag("bdi", flip.before)),
            tag("td", tag("bdi", flip.after)),
            tag("td", f"{flip.right:,}", class_="number"),
            tag("td", f"{flip.wrong:,}", class_="number"),
            tag("td", tag("ul", *(tag("li", quoted(text, CHARACTERS)) for text in flip.examples)), class_="said"),
        )
        for flip in flips[:FLIPS]
    ]
    return table(("decisions", "from", "to", "now right", "now wrong", "messages"), rows)


def _obstacles(found: ReplayResult) -> Markup:
    rows = [
        tag("tr", tag("td", f"{count:,}", class_="number"), tag("td", OBSTACLES[reason]))
        for reason, count in found.obstacles.items()
    ]
    return table(("decisions", "why"), rows)


def _experiment_body(found: ExperimentResult) -> Markup:
    """The page's content."""
    record = found.record
    state = record.state.replace("_", " ")
    about = f"{state} · since {record.started_at:%Y-%m-%d %H:%M} UTC · a {record.experiment.unit} counts once"
    parts: list[Child] = [tag("header", tag("h1", record.name), tag("p", about)), _experiment_tiles(found)]
    if record.reason:
        parts.append(tag("p", record.reason))
    if found.is_broken:
        parts.append(tag("p", "The arms do not have their shares of the units, so no comparison counts."))
    plots = [
        figure(f"{each.arm} − {record.experiment.control.name}: {each.metric}", _over_time(each.over_time), _AT_EVERY_LOOK)
        for each in found.primary
        if len(each.over_time) > 1 and each.estimate is not None
    ]
    parts.append(tag("div", *plots, class_="plots"))
    parts.append(section("Arms", table(("arm", "policy", "units", "ripe", *METRICS), [_arm(arm) for arm in found.arms])))
    parts.append(section("Differences", table(("metric", "arm", "points", "from", "to"), _differences(found.comparisons))))
    if found.breaks:
        rows = [tag("li", f"{each.at:%Y-%m-%d %H:%M} UTC: {each.tree_version}") for each in found.breaks]
        note = "The agents' definitions changed. Units are compared within the times between the changes."
        parts.append(section("Breaks", tag("p", note), tag("ul", *rows)))
    return tag("main", *parts)


def _experiment_tiles(found: ExperimentResult) -> Markup:
    """The row of figures."""
    paired = found.paired
    differ = percent(paired.differ / paired.decisions) if paired is not None else None
    about = "" if paired is None else f"of {paired.decisions:,} messages that both policies decided"
    return tile_row(
        [
            ("winner", found.winner or "none yet", f"by {found.record.experiment.metric}"),
            ("decided differently", differ, about),
            ("shares of the arms", f"p {found.ratio_p:.2g}", "below 0.001, the experiment is broken"),
        ]
    )


def _over_time(points: Sequence[Point]) -> Markup:
    """The plot of a difference and its interval over time."""
    shown = [point for point in points if (point.low, point.high) != (-1.0, 1.0)] or list(points)
    most = max(0.01, *(max(abs(point.low), abs(point.high)) for point in shown[len(shown) // 10 :]))
    frame = Frame(x0=0, x1=float(points[-1].units), y0=-most, y1=most)
    step = round_step(2 * most)
    marks = [number * step for number in range(-int(most / step), int(most / step) + 1)]
    units = round_step(frame.x1)
    clipped = [(point.units, *(min(max(value, -most), most) for value in point[1:])) for point in shown]
    return plot(
        frame,
        line(frame, [(0, 0), (frame.x1, 0)], "ideal"),
        joined(*(line(frame, [(row[0], row[side]) for row in clipped], name) for side, name in _BOUNDS)),
        xs=[(number * units, f"{number * units:,.0f}") for number in range(int(frame.x1 / units) + 1)],
        ys=[(value, f"{100 * value:+g}") for value in marks],
        x_label="ripe units",
        y_label="difference in points",
        about="The difference and its interval after each unit.",
    )


def _arm(arm: ArmResult) -> Markup:
    means = [tag("td", percent(arm.means[metric]), class_="number") for metric in METRICS]
    counts = [tag("td", f"{count:,}", class_="number") for count in (arm.units, arm.ripe)]
    return tag("tr", tag("th", arm.name, scope="row"), tag("td", arm.policy or "the app's"), *counts, *means)


def _differences(comparisons: Sequence[Comparison]) -> list[Markup]:
    """The rows of all differences."""
    rows = []
    for each in comparisons:
        values = (each.estimate, each.low, each.high) if each.estimate is not None else (None, None, None)
        numbers = [tag("td", "–" if value is None else f"{100 * value:+.1f}", class_="number") for value in values]
        rows.append(tag("tr", tag("th", each.metric, scope="row"), tag("td", each.arm), *numbers))
    return rows
