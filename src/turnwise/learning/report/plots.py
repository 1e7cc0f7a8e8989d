"""SVG plots: reliability, coverage, latency, accuracy by turn, and the confusion map of the agents with the most mistakes."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.learning.measures import Bin, Outcome, coverage, percentile, reliability, share
from turnwise.learning.report.markup import Child, Markup, joined, tag

Ticks = Sequence[tuple[float, str]]

POINTS, BINS, TURNS = 240, 36, 20
_FEW = 5

AGENTS = 30
OTHERS = " others"  # the leading space keeps it distinct from agents' names
_CELL, _LABEL, _MARGIN = 22.0, 168.0, 8.0
_CHARACTERS = 24
_LEAN = 5.4  # height and maximum width of one character of a rotated column label

Agent = str | None
Counts = Counter[tuple[Agent, Agent]]


def reliability_plot(in_scope: Sequence[Outcome]) -> Markup:
    """Plots accuracy by reported confidence; the diagonal is ideal."""
    return bins_plot(reliability(in_scope))


def bins_plot(bins: Sequence[Bin]) -> Markup:
    """Plots the accuracy of bins of the confidence; the diagonal is ideal."""
    frame = Frame()
    most = max(each.cases for each in bins)
    columns = [_column(frame, each, each.cases / most) for each in bins]
    dots = [_dot(frame, each) for each in bins]
    solid = [each for each in bins if each.cases >= _FEW] or bins
    return plot(
        frame,
        *columns,
        line(frame, [(0, 0), (1, 1)], "ideal"),
        line(frame, [(each.confidence, each.accuracy) for each in solid], "curve"),
        *dots,
        xs=percents(),
        ys=percents(),
        x_label="reported confidence",
        y_label="share that was right",
        about="Reliability: the share of right decisions by reported confidence.",
    )


def coverage_plot(scored: Sequence[Outcome]) -> Markup:
    """Plots precision against coverage when only the most confident decisions are accepted."""
    points = _thinned(coverage(scored))
    low = min(0.9, max(0.0, int(min(y for _, y in points) * 10) / 10))
    frame = Frame(y0=low)
    taken = [outcome for outcome in scored if outcome.chosen is not None]
    marks = [area(frame, points, "fill"), line(frame, points, "curve")]
    precision = share(outcome.right for outcome in taken)
    if precision is not None and precision >= low:
        marks.append(_operating_point(frame, len(taken) / len(scored), precision))
    return plot(
        frame,
        *marks,
        xs=percents(),
        ys=percents(low, 1.0, 5),
        x_label="coverage: share of all cases, most confident first",
        y_label="precision",
        about="Coverage against precision.",
    )


def latency_plot(times: Sequence[float]) -> Markup:
    """Plots a histogram of decision times. The last column holds all longer times."""
    ordered = sorted(times)
    most = (percentile(ordered, 0.995) or 0.0) * 1.1 or 1.0
    step = round_step(most)
    frame = Frame(x1=most, height=260.0)
    counts = [0] * BINS
    for time in ordered:
        counts[min(int(time / most * BINS), BINS - 1)] += 1
    frame = frame._replace(y1=max(counts) * 1.08)
    columns = [_latency_column(frame, number, count, len(ordered), most) for number, count in enumerate(counts) if count]
    marks = [_limit(frame, percentile(ordered, at) or 0.0, label) for at, label in ((0.5, "p50"), (0.99, "p99"))]
    rows = round_step(frame.y1, 4)
    return plot(
        frame,
        *columns,
        *marks,
        xs=[(step * number, f"{step * number:g}") for number in range(int(most / step) + 1)],
        ys=[(rows * number, f"{int(rows * number):,}") for number in range(int(frame.y1 / rows) + 1)],
        x_label="milliseconds of one decision, encoding included",
        y_label="decisions",
        about="Histogram of the time a decision takes.",
    )


def turns_plot(scored: Sequence[Outcome]) -> Markup | None:
    """Plots accuracy by turn of the dialogue; None without dialogues."""
    by_turn: dict[int, list[bool]] = {}
    for outcome in scored:
        if outcome.dialogue is not None:
            by_turn.setdefault(outcome.turn, []).append(outcome.right)
    points = [
        (float(turn + 1), sum(rights) / len(rights), len(rights))
        for turn, rights in sorted(by_turn.items())
        if turn < TURNS and len(rights) >= _FEW
    ]
    if len(points) < 2:
        return None
    low = min(0.9, int(min(y for _, y, _ in points) * 10) / 10)
    frame = Frame(x0=1.0, x1=points[-1][0], y0=low, height=260.0)
    dots = [
        tag("circle", tag("title", f"turn {x:g}: {100 * y:.1f} % of {n:,}"), cx=frame.x(x), cy=frame.y(y), r=4.0, class_="dot")
        for x, y, n in points
    ]
    curve = [(x, y) for x, y, _ in points]
    every = max(1, len(points) // 10)
    return plot(
        frame,
        area(frame, curve, "fill"),
        line(frame, curve, "curve"),
        *dots,
        xs=[(x, f"{x:g}") for x, _ in curve[::every]],
        ys=percents(low, 1.0, 5),
        x_label="turn of the dialogue",
        y_label="share that was right",
        about="Accuracy by turn of the dialogue.",
    )


class Frame(NamedTuple):
    """A plot's box in an image of `width` × `height`, and the data range of its axes."""

    width: float = 520.0
    height: float = 320.0
    left: float = 64.0
    right: float = 16.0
    top: float = 16.0
    bottom: float = 44.0
    x0: float = 0.0
    x1: float = 1.0
    y0: float = 0.0
    y1: float = 1.0

    def x(self, value: float) -> float:
        """Returns the horizontal position of a value."""
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Returns the vertical position of a value."""
        return self.height - self.bottom - (value - self.y0) / (self.y1 - self.y0) * (self.height - self.top - self.bottom)


def percents(low: float = 0.0, high: float = 1.0, parts: int = 5) -> list[tuple[float, str]]:
    """Returns evenly spaced ticks of a share."""
    values = [low + (high - low) * number / parts for number in range(parts + 1)]
    return [(value, f"{100 * value:g} %") for value in values]


def plot(frame: Frame, *marks: Child, xs: Ticks, ys: Ticks, x_label: str, y_label: str, about: str) -> Markup:
    """Draws the marks over a grid. `about` is the text alternative."""
    grid = [
        tag("line", x1=frame.left, x2=frame.width - frame.right, y1=frame.y(at), y2=frame.y(at), class_="grid") for at, _ in ys
    ]
    texts = [
        tag("text", label, x=frame.left - 8, y=frame.y(at), class_="tick", text_anchor="end", dominant_baseline="central")
        for at, label in ys
    ]
    below = frame.height - frame.bottom
    texts += [tag("text", label, x=frame.x(at), y=below + 18, class_="tick", text_anchor="middle") for at, label in xs]
    texts += [
        _middle(x_label, x=(frame.left + frame.width - frame.right) / 2, y=frame.height - 6),
        _middle(y_label, x=-(frame.top + below) / 2, y=13.0, transform="rotate(-90)"),
    ]
    floor = tag("line", x1=frame.left, x2=frame.width - frame.right, y1=below, y2=below, class_="base")
    return tag(
        "svg",
        joined(*grid, *marks, floor, *texts),
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        aria_label=about,
    )


def _middle(text: str, **attributes: object) -> Markup:
    return tag("text", text, class_="axis", text_anchor="middle", **attributes)


def line(frame: Frame, points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Draws a line through data points."""
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    return tag("polyline", points=places, class_=class_)


def area(frame: Frame, points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Draws the area below a line."""
    inside = [(points[0][0], frame.y0), *points, (points[-1][0], frame.y0)]
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in inside)
    return tag("polygon", points=places, class_=class_)


def round_step(span: float, parts: int = 5) -> float:
    """Returns a tick step of 1, 2 or 5 times a power of ten that divides the span into about `parts` parts."""
    raw = max(span, 1e-9) / parts
    power = 10.0 ** math.floor(math.log10(raw))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= raw), 10 * power)


def _column(frame: Frame, each: Bin, height: float) -> Markup:
    top = frame.y(0.25 * height)
    x, width = frame.x(each.low) + 1, frame.x(each.high) - frame.x(each.low) - 2
    return tag("rect", x=x, y=top, width=width, height=frame.y(0) - top, class_="ghost", rx=1.5)


def _dot(frame: Frame, each: Bin) -> Markup:
    tooltip = f"{each.cases:,} cases, confidence {100 * each.confidence:.1f} %, right {100 * each.accuracy:.1f} %"
    class_ = "dot faint" if each.cases < _FEW else "dot"
    return tag("circle", tag("title", tooltip), cx=frame.x(each.confidence), cy=frame.y(each.accuracy), r=4.0, class_=class_)


def _operating_point(frame: Frame, x: float, y: float) -> Markup:
    """Draws the point of the policy as it is."""
    tooltip = f"As decided: an agent takes {100 * x:.1f} %, and {100 * y:.1f} % of those are right."
    place = {"cx": frame.x(x), "cy": frame.y(y)}
    label = tag(
        "text", "as decided", x=frame.x(x) - 10, y=frame.y(y) + 18, class_="note", text_anchor="end" if x > 0.3 else "start"
    )
    return joined(tag("circle", tag("title", tooltip), **place, r=6.0, class_="here"), label)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, len(points) // POINTS)
    return [*points[::step], points[-1]]


def _latency_column(frame: Frame, number: int, count: int, total: int, most: float) -> Markup:
    """Draws a column of the latency histogram."""
    low, high = most * number / BINS, most * (number + 1) / BINS
    to = "or longer" if number == BINS - 1 else f"to {high:.2f} ms"
    tooltip = f"{low:.2f} ms {to}: {count:,} ({100 * count / total:.1f} %)"
    top = frame.y(count)
    width = frame.x(high) - frame.x(low) - 1.5
    return tag("rect", tag("title", tooltip), x=frame.x(low), y=top, width=width, height=frame.y(0) - top, class_="bar", rx=1.5)


def _limit(frame: Frame, time: float, label: str) -> Markup:
    """Draws a labelled vertical line at a latency."""
    x = frame.x(min(time, frame.x1))
    near = x > frame.width - 90
    text = tag(
        "text", f"{label} {time:.2f} ms", x=x - 5 if near else x + 5, y=frame.top + 9, class_="note",
        text_anchor="end" if near else "start",
    )  # fmt: skip
    return joined(tag("line", x1=x, x2=x, y1=frame.top, y2=frame.height - frame.bottom, class_="mark"), text)


def heat_map(scored: Sequence[Outcome]) -> Markup | None:
    """Draws expected agents as rows and chosen agents as columns, with shares of the row; None without mistakes."""
    counts: Counts = Counter((outcome.expected, outcome.chosen) for outcome in scored)
    return draw_map(counts, "Confusion map: expected agent by chosen agent.")


def draw_map(counts: Counts, about: str) -> Markup | None:
    """Draws pairs of agents: the first as rows, the second as columns, with shares of the row. None if all pairs are equal.

    Args:
        counts: How often each pair occurs.
        about: Describes the map to readers who cannot see it.
    """
    shown = ordered(counts)
    if not shown:
        return None
    columns = [*shown, OTHERS] if any(_outside(counts, row, shown) for row in shown) else [*shown]
    top = 24.0 + _LEAN * max(len(label(agent)) for agent in columns)
    height = top + _CELL * len(shown) + _MARGIN
    width = _LABEL + _CELL * len(columns) + _MARGIN + _LEAN * len(label(columns[-1]))
    parts: list[Markup] = []
    for number, agent in enumerate(shown):
        y = top + _CELL * (number + 0.5)
        place = {"x": _LABEL - 7, "y": y, "text_anchor": "end", "dominant_baseline": "central"}
        parts.append(tag("text", label(agent), class_="name", **place))
        parts += _row(counts, agent, shown, columns, top + _CELL * number)
    for number, agent in enumerate(columns):
        x = _LABEL + _CELL * (number + 0.5)
        parts.append(tag("text", label(agent), x=x, y=top - 7, class_="name", transform=f"rotate(-60 {x:.1f} {top - 7:.1f})"))
    box, most = f"0 0 {width:.0f} {height:.0f}", f"max-width:{1.2 * width:.0f}px"
    return tag("svg", joined(*parts), viewBox=box, role="img", aria_label=about, class_="map", style=most)


def _row(counts: Counts, agent: Agent, shown: Sequence[Agent], columns: Sequence[Agent], y: float) -> list[Markup]:
    """Draws an agent's row of cells."""
    total = sum(count for (expected, _), count in counts.items() if expected == agent)
    cells = []
    for place, other in enumerate(columns):
        count = _outside(counts, agent, shown) if other == OTHERS else counts[agent, other]
        if count:
            cells.append(_cell(agent, other, count, total, _LABEL + _CELL * place, y))
    frame = tag("rect", x=_LABEL, y=y, width=_CELL * len(columns), height=_CELL, class_="lane")
    return [frame, *cells]


def _cell(agent: Agent, other: Agent, count: int, total: int, x: float, y: float) -> Markup:
    """Draws a cell: how many of an agent's messages went to the other one."""
    right = agent == other
    share = count / total
    tooltip = f"{label(agent, None)} → {label(other, None)}: {count:,} of {total:,} ({100 * share:.1f} %)"
    strength = 0.12 + 0.88 * min(1.0, share if right else (share * 3) ** 0.5)
    inside = tag("rect", tag("title", tooltip), x=x + 1, y=y + 1, width=_CELL - 2, height=_CELL - 2, rx=3.0,
                 class_="hit" if right else "miss", fill_opacity=strength)  # fmt: skip
    if right:
        return inside
    number = tag(
        "text", str(count), x=x + _CELL / 2, y=y + _CELL / 2, class_="count strong" if strength > 0.62 else "count",
        text_anchor="middle", dominant_baseline="central",
    )  # fmt: skip
    return joined(inside, number)


def _outside(counts: Counts, agent: Agent, shown: Sequence[Agent]) -> int:
    return sum(count for (expected, chosen), count in counts.items() if expected == agent and chosen not in shown)


def label(agent: Agent, characters: int | None = _CHARACTERS) -> str:
    """Returns an agent's display name, cut to `characters`."""
    name = "out of scope" if agent is None else agent.strip()
    return name if characters is None or len(name) <= characters else name[: characters - 1] + "…"


def ordered(counts: Counts, most: int = AGENTS) -> list[Agent]:
    """Returns the agents with the most mistakes, ordered so that confused agents are adjacent.

    Agglomerative clustering: starting with single agents, the two groups with the most mistakes between their agents, on
    average and in both directions, are merged repeatedly.
    """
    mistakes = {pair: count for pair, count in counts.items() if pair[0] != pair[1]}
    involved: Counter[Agent] = Counter()
    for (expected, chosen), count in mistakes.items():
        involved[expected] += count
        involved[chosen] += count
    names = [name for name, _ in sorted(involved.items(), key=lambda item: (-item[1], item[0] or ""))][:most]
    groups: list[list[Agent]] = [[name] for name in names]
    while len(groups) > 1:
        bonds = [
            (_bond(mistakes, groups[one], groups[two]), -one, -two)
            for one in range(len(groups))
            for two in range(one + 1, len(groups))
        ]
        strength, one, two = max(bonds)
        if strength == 0.0:
            break
        groups[-one] += groups.pop(-two)
    return [name for group in groups for name in group]


def _bond(mistakes: dict[tuple[Agent, Agent], int], one: Sequence[Agent], two: Sequence[Agent]) -> float:
    between = sum(mistakes.get((a, b), 0) + mistakes.get((b, a), 0) for a in one for b in two)
    return between / (len(one) * len(two))
