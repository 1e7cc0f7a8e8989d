"""The page of the decisions: misroutes, what falls to nobody, conflicts of patterns, right and wrong, drift."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from turnwise.learning.decision_report import Conflict, DecisionReport, Group, Misroute, Rivals, Tally, Week
from turnwise.learning.report.markup import Child, Markup, joined, quoted, tag
from turnwise.learning.report.pages import document, figure, percent, section, table, tile_row
from turnwise.learning.report.plots import Frame, bins_plot, draw_map, line, percents, plot, round_step

CHARACTERS = 160

_LABELS = "From all labels that count. Labels of complaints are where the router errs, so these shares are not its accuracy."

_DRIFT = "A change here comes from the traffic, the agents or the policy."

Columns = Sequence[tuple[int, int, int]]
"""Right, wrong, and all decisions."""
_TICKS = 13


def decision_page(found: DecisionReport) -> str:
    """Returns the report as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    return document(f"{found.decisions:,} decisions · Turnwise report", _body(found))


def _body(found: DecisionReport) -> Markup:
    """The page's content."""
    parts: list[Child] = [tag("header", tag("h1", "Decisions"), *(tag("p", each) for each in _about(found)))]
    plots = _plots(found)
    parts += [_tiles(found), tag("div", *plots, class_="plots") if plots else None]
    parts += [_misroutes(found), _rivals(found.rivals), _groups(found), _conflicts(found)]
    parts.append(section("Right and wrong by method", _note(_LABELS), _methods(found.by_method)))
    parts.append(section("Drift over weeks", _note(_DRIFT), _drift(found.weeks), _weeks(found.weeks)))
    parts.append(tag("footer", "The documentation explains the page, under learning."))
    return tag("main", *parts)


def _about(found: DecisionReport) -> list[str]:
    """The lines below the heading: the time span, and how accuracy was estimated."""
    if found.first is None or found.last is None:
        return ["There are no decisions."]
    span = (
        f"{found.decisions:,} decisions from {found.first:%Y-%m-%d} to {found.last:%Y-%m-%d}, {found.labels:,} of them labelled"
    )
    lines = [span if found.complete else f"{span}; older ones were not read"]
    if found.accuracy is None:
        lines.append("Accuracy and calibration are unknown: no labelled decision was picked at random.")
    else:
        how = "randomly picked labels" if found.accuracy.how == "random" else "labels by inverse probability of being picked"
        lines.append(f"Accuracy and calibration are estimated from {found.accuracy.labels:,} {how}.")
    return lines


def _tiles(found: DecisionReport) -> Markup:
    """The row of figures."""
    known = found.accuracy
    asked = sum(week.asked for week in found.weeks)
    in_weeks = sum(week.decisions for week in found.weeks) or 1
    nobody = sum(week.nobody for week in found.weeks)
    interval = "" if known is None else f"{percent(known.low)} to {percent(known.high)}, from {known.labels:,} labels"
    points = None if found.calibration_error is None else f"{100 * found.calibration_error:.1f}"
    return tile_row(
        [
            ("decisions", f"{found.decisions:,}", f"{found.labels:,} labelled"),
            ("right, estimated", None if known is None else percent(known.share), interval),
            ("calibration error", points, "points, in 10 bins"),
            ("to the default agent", percent(nobody / in_weeks), f"{nobody:,} decisions"),
            ("asked the user", percent(asked / in_weeks), f"{asked:,} decisions"),
        ]
    )


def _plots(found: DecisionReport) -> list[Child]:
    """The plots of calibration and of right and wrong by confidence, where there are labels."""
    plots: list[Child] = []
    if found.calibration and found.accuracy is not None:
        note = "On the dashed line, 80 % of the decisions with a confidence of 80 % are right."
        note = f"{note} From {found.accuracy.labels:,} labels."
        plots.append(figure("Confidence calibration", bins_plot(found.calibration), note))
    if found.labels:
        tenths = [(each.right, each.wrong, each.decisions) for each in found.by_confidence]
        plots.append(figure("Right and wrong by confidence", confidence_plot(tenths), f"Green: right, red: wrong. {_LABELS}"))
    return plots


def _share(count: int, week: Week) -> float:
    return count / week.decisions if week.decisions else 0.0


def _note(text: str) -> Markup:
    return tag("p", text)


def _misroutes(found: DecisionReport) -> Markup:
    drawn = draw_map(Counter(found.pairs), "Map of misroutes: right agent by chosen agent.")
    if drawn is None:
        return section("Misroutes", _note("No label contradicts a decision."))
    note = "Rows: the agent that should have been chosen, by labels that count. Columns: the agent that was chosen."
    return section("Misroutes", _note(note), tag("div", drawn, class_="scroll"), _misroute_table(found.misroutes))


def _misroute_table(found: Sequence[Misroute]) -> Markup:
    rows = [
        tag("tr", _number(each.count), _agent(each.expected), _agent(each.chosen), _messages(each.examples)) for each in found
    ]
    return table(("decisions", "belongs to", "went to", "messages"), rows)


def _rivals(found: Sequence[Rivals]) -> Markup:
    """The section of agents that take each other's messages."""
    if not found:
        return section("Agents that take each other's messages", _note("There are none."))
    rows = [
        tag("tr", _agent(each.one), _agent(each.other), _number(each.to_other), _number(each.to_one), _number(each.agreed))
        for each in found
    ]
    note = "Both ways: their examples or descriptions overlap. `turnwise lint` names the examples."
    heads = ("agent", "and", "the second took", "the first took", "went to the right one")
    return section("Agents that take each other's messages", _note(note), table(heads, rows))


def _groups(found: DecisionReport) -> Markup:
    """The section of messages that fell to nobody."""
    sample = "" if found.sampled == found.nobody else f" A random sample of {found.sampled:,} of these is grouped."
    note = f"{found.nobody:,} messages went to the default agent, small talk aside.{sample} The names are proposals."
    if not found.groups:
        return section("What falls to nobody", _note(f"{note} No three of them ask for the same."))
    most = max(group.count for group in found.groups)
    rows = [
        tag("tr", _number(each.count), _agent(each.name), _bar(each, most), _messages(each.examples)) for each in found.groups
    ]
    return section("What falls to nobody", _note(note), table(("messages", "proposed name", "", "messages"), rows))


def _bar(group: Group, most: int) -> Markup:
    return tag("td", tag("span", class_="split", style=f"width:{110 * group.count / most:.0f}px;background:var(--blue)"))


def _conflicts(found: DecisionReport) -> Markup:
    """The section of pattern conflicts."""
    note = f"Patterns of two agents match the same message. Compared: {found.compared:,} messages."
    if not found.conflicts:
        return section("Pattern conflicts met in traffic", _note(f"{note} There are none."))
    rows = [_conflict(each) for each in found.conflicts]
    heads = ("messages", "agent", "and", "went to", "messages")
    return section("Pattern conflicts met in traffic", _note(note), table(heads, rows))


def _conflict(each: Conflict) -> Markup:
    won = ", ".join(f"{name} {count:,}" for name, count in each.won.items())
    return tag(
        "tr", _number(each.count), *map(_agent, each.agents), tag("td", quoted(won, CHARACTERS)), _messages(each.examples)
    )


def _methods(found: Mapping[str, Tally]) -> Markup:
    rows = [
        tag("tr", tag("th", name, scope="row"), _number(each.decisions), _number(each.right), _number(each.wrong), _split(each))
        for name, each in found.items()
    ]
    return table(("decided by", "decisions", "right", "wrong", ""), rows)


def _split(each: Tally) -> Markup:
    labelled = each.right + each.wrong
    if not labelled:
        return tag("td", "no label", class_="wide")
    good = tag("i", class_="good", style=f"width:{100 * each.right / labelled:.1f}%")
    return tag("td", tag("span", good, class_="split"), class_="wide")


def _drift(found: Sequence[Week]) -> Markup | None:
    """Draws the shares by week; None for a single week."""
    if len(found) < 2:
        return None
    lines = [
        ("default agent", [_share(week.nobody, week) for week in found], "curve"),
        ("confidence below 60 %", [_share(week.unsure, week) for week in found], "mark"),
        ("asked the user", [_share(week.asked, week) for week in found], "ideal"),
    ]
    return weeks_plot([week.start for week in found], lines)


def _weeks(found: Sequence[Week]) -> Markup:
    """The table of weeks."""
    rows = [
        tag(
            "tr",
            tag("th", f"{each.start:%Y-%m-%d}", scope="row"),
            _number(each.decisions),
            *(tag("td", percent(_share(count, each)), class_="number") for count in (each.nobody, each.asked, each.unsure)),
            _number(each.right),
            _number(each.wrong),
        )
        for each in reversed(found)
    ]
    heads = ("week", "decisions", "default agent", "asked the user", "confidence below 60 %", "right", "wrong")
    return table(heads, rows)


def _number(count: int) -> Markup:
    return tag("td", f"{count:,}", class_="number")


def _agent(name: str) -> Markup:
    return tag("td", tag("bdi", name))


def _messages(texts: Sequence[str]) -> Markup:
    return tag("td", tag("ul", *(tag("li", quoted(text, CHARACTERS)) for text in texts)), class_="said")


def confidence_plot(tenths: Columns) -> Markup:
    """Plots labelled decisions by tenth of their confidence: right ones below, wrong ones on top."""
    most = max((right + wrong for right, wrong, _ in tenths), default=0) or 1
    frame = Frame(x1=float(len(tenths)), y1=most * 1.08, height=260.0)
    columns = [_tenth_column(frame, number, *each) for number, each in enumerate(tenths)]
    rows = max(round_step(frame.y1, 4), 1.0)
    return plot(
        frame,
        *columns,
        xs=[(number, f"{number / len(tenths):.0%}".replace("%", " %")) for number in range(0, len(tenths) + 1, 2)],
        ys=[(rows * number, f"{rows * number:,.0f}") for number in range(int(frame.y1 / rows) + 1)],
        x_label="confidence of the decision",
        y_label="labelled decisions",
        about="Right and wrong decisions by confidence.",
    )


def _tenth_column(frame: Frame, tenth: int, right: int, wrong: int, decisions: int) -> Markup:
    """Draws the decisions of one tenth of confidence: right ones below, wrong ones on top, all of them in the tooltip."""
    x, width = frame.x(tenth) + 3, frame.x(1) - frame.x(0) - 6
    tooltip = f"{10 * tenth} to {10 * tenth + 10} %: {right:,} right, {wrong:,} wrong, of {decisions:,} decisions"
    top, middle = frame.y(right + wrong), frame.y(right)
    return joined(
        tag("rect", tag("title", tooltip), x=x, y=middle, width=width, height=frame.y(0) - middle, class_="hit"),
        tag("rect", tag("title", tooltip), x=x, y=top, width=width, height=middle - top, class_="miss"),
    )


def weeks_plot(weeks: Sequence[date], lines: Sequence[tuple[str, Sequence[float], str]]) -> Markup:
    """Plots shares by week.

    Args:
        weeks: The first day of each week, at least two, in order.
        lines: For each line its name, its shares, and the class of its style.
    """
    most = max((share for _, shares, _ in lines for share in shares), default=0.0)
    top = min(1.0, max(0.1, int(most * 10 + 1) / 10))
    frame = Frame(width=1040.0, height=280.0, top=40.0, x1=float(len(weeks) - 1), y1=top)
    every = max(1, -(-len(weeks) // _TICKS))
    marks: list[Markup] = []
    for place, (name, shares, class_) in enumerate(lines):
        marks.append(line(frame, list(enumerate(map(float, shares))), class_))
        x, y = frame.left + 200 * place, 14.0
        marks.append(tag("line", x1=x, x2=x + 22, y1=y, y2=y, class_=class_))
        marks.append(tag("text", name, x=x + 28, y=y + 4, class_="note"))
    return plot(
        frame,
        *marks,
        xs=[(float(number), f"{day:%d %b}") for number, day in enumerate(weeks) if number % every == 0],
        ys=percents(0.0, top, 5),
        x_label="week that begins on",
        y_label="share of all decisions",
        about="Shares of decisions by week.",
    )
