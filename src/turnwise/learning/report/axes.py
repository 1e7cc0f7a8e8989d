"""The frame of a plot: a box with scales, ticks and labels."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.learning.report.markup import Child, Markup, joined, tag


class Frame(NamedTuple):
    """A plot's box in an image of `width` × `height`, and what its edges stand for."""

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
        """Where a value of the horizontal scale lies."""
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Where a value of the vertical scale lies."""
        return self.height - self.bottom - (value - self.y0) / (self.y1 - self.y0) * (self.height - self.top - self.bottom)


Ticks = Sequence[tuple[float, str]]


def percents(low: float = 0.0, high: float = 1.0, parts: int = 5) -> list[tuple[float, str]]:
    """Ticks of a share, evenly spread."""
    values = [low + (high - low) * number / parts for number in range(parts + 1)]
    return [(value, f"{100 * value:g} %") for value in values]


def plot(frame: Frame, *marks: Child, xs: Ticks, ys: Ticks, x_label: str, y_label: str, about: str) -> Markup:
    """The marks over a grid. `about` says in words what is shown, for who does not see it."""
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
    """A line through points of the scales."""
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    return tag("polyline", points=places, class_=class_)


def area(frame: Frame, points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """The same, filled down to the floor."""
    inside = [(points[0][0], frame.y0), *points, (points[-1][0], frame.y0)]
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in inside)
    return tag("polygon", points=places, class_=class_)


def round_step(span: float, parts: int = 5) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides the span into about so many parts."""
    raw = max(span, 1e-9) / parts
    power = 10.0 ** math.floor(math.log10(raw))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= raw), 10 * power)
