"""The page of an experiment: the differences with their intervals, over time, and the arms."""

from collections.abc import Sequence

from turnwise.learning.experiments import ArmResult, Comparison, ExperimentResult, Point
from turnwise.learning.report.curves import Frame, line, plot, round_step
from turnwise.learning.report.markup import Child, Markup, joined, tag
from turnwise.learning.report.page import document, figure, section
from turnwise.learning.report.sections import percent, table, tile_row
from turnwise.ports.experiments import METRICS


def experiment_page(found: ExperimentResult) -> str:
    """Returns the analysis as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    return document(f"{found.record.name} · Turnwise experiment", _body(found))


def _body(found: ExperimentResult) -> Markup:
    """The page's content."""
    record = found.record
    state = record.state.replace("_", " ")
    about = f"{state} · since {record.started_at:%Y-%m-%d %H:%M} UTC · a {record.experiment.unit} counts once"
    parts: list[Child] = [tag("header", tag("h1", record.name), tag("p", about)), _tiles(found)]
    if record.reason:
        parts.append(tag("p", record.reason))
    if found.is_broken:
        parts.append(tag("p", "The arms do not have their shares of the units, so no comparison counts."))
    plots = [
        figure(f"{each.arm} − {record.experiment.control.name}: {each.metric}", _over_time(each.over_time), _NOTE)
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


_NOTE = "The intervals hold at every look: the true difference is outside of any of them with the probability alpha at most."


def _tiles(found: ExperimentResult) -> Markup:
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
        joined(*(line(frame, [(row[0], row[side]) for row in clipped], name) for side, name in _LINES)),
        xs=[(number * units, f"{number * units:,.0f}") for number in range(int(frame.x1 / units) + 1)],
        ys=[(value, f"{100 * value:+g}") for value in marks],
        x_label="ripe units",
        y_label="difference in points",
        about="The difference and its interval after each unit.",
    )


_LINES = ((1, "curve"), (2, "ideal"), (3, "ideal"))


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
