"""SVG plots of traffic: right and wrong decisions by confidence, and shares by week."""

from collections.abc import Sequence
from datetime import date

from turnwise.learning.report.curves import Frame, line, percents, plot, round_step
from turnwise.learning.report.markup import Markup, joined, tag

Columns = Sequence[tuple[int, int, int]]
"""Right, wrong, and all decisions."""
_TICKS = 13


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
