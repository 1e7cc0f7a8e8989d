"""A confusion map of the agents with the most mistakes, with confused agents next to each other."""

from collections import Counter
from collections.abc import Sequence

from turnwise.learning.outcomes import Outcome
from turnwise.learning.report.markup import Markup, joined, tag

AGENTS = 30
OTHERS = " others"  # the leading space keeps it distinct from agents' names
_CELL, _LABEL, _MARGIN = 22.0, 168.0, 8.0
_CHARACTERS = 24
_LEAN = 5.4  # height and maximum width of one character of a rotated column label

Agent = str | None
Counts = Counter[tuple[Agent, Agent]]


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
