"""Where the boxes of a graph stand, and the ways between them: in layers, no way through a box. Pure.

A box's layer is one more than the highest of those that it needs. Where a way passes a layer it has a place of its own there,
as a box has, which all ways from the same box share.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.tasks.graph import Graph

MOST_DRAWN = 5_000
"""Boxes, ways, and passings of ways through layers."""
PATIENCE = 3
"""How many rounds may bring nothing before the order stays as it is."""
_SWEEPS = 12
STRAIGHTNESS = 8
"""How much more than a box the passing of a way keeps to where it wants to be."""

Spot = tuple[str, int]
"""A box at its layer, or the passing of the ways from that box through a higher layer."""


class Sizes(NamedTuple):
    """In the units of the drawing. along: of a box in the direction of the ways; across: the other one. between, beside: room
    between layers, and within one. passing: the room that a way needs to pass a layer.
    """

    along: float
    across: float
    between: float
    beside: float
    passing: float


class Way(NamedTuple):
    """From a box to one that needs it: the layers that it leaves, passes and reaches are one more each, and `across` tells its
    place in each of them.
    """

    source: str
    target: str
    across: tuple[float, ...]


class Layout(NamedTuple):
    """boxes: the layer of each, and the middle of its place across. layers: how many there are. across: the room of it all."""

    boxes: Mapping[str, tuple[int, float]]
    ways: tuple[Way, ...]
    layers: int
    across: float


class Layers:
    """The layers of a graph, each in an order with few crossings of ways, whichever direction they are drawn in.

    FlowDefinitionError when there is more to be drawn than 5,000 boxes, ways, and layers that ways pass.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._layer = _layers(graph)
        rows = _spots(graph, self._layer)
        self._links = _links(graph, self._layer, rows)
        self._above = _reversed(self._links)
        self._rows = _ordered(rows, self._above, self._links)

    def layout(self, sizes: Sizes) -> Layout:
        """The places of all, for boxes and distances of these sizes."""
        layer = self._layer
        places = _placed(self._rows, self._above, self._links, layer, sizes)
        low = min(place - _room(spot, sizes, layer) / 2 for spot, place in places.items())
        high = max(place + _room(spot, sizes, layer) / 2 for spot, place in places.items())
        moved = {spot: place - low for spot, place in places.items()}
        boxes = {name: (layer[name], moved[name, layer[name]]) for name in self._graph.order}
        ways = [self._way(need, name, moved) for name in self._graph.order for need in self._graph.needs[name]]
        return Layout(boxes, tuple(ways), len(self._rows), high - low)

    def _way(self, source: str, target: str, places: Mapping[Spot, float]) -> Way:
        passed = (places[source, at] for at in range(self._layer[source], self._layer[target]))
        return Way(source, target, (*passed, places[target, self._layer[target]]))


def _layers(graph: Graph) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in graph.order:
        found[name] = max((found[need] + 1 for need in graph.needs[name]), default=0)
    return found


def _spots(graph: Graph, layer: Mapping[str, int]) -> list[list[Spot]]:
    """The spots of each layer, in the graph's order."""
    last = {name: max((layer[below] - 1 for below in graph.needed_by[name]), default=layer[name]) for name in graph.order}
    if sum(last[name] - layer[name] + 1 + len(graph.needs[name]) for name in graph.order) > MOST_DRAWN:
        problem = f"The graph of {graph.flow!r} is too large, or too tangled, to be drawn."
        raise FlowDefinitionError(problem, fix="Show it as Mermaid, or at the terminal.")
    rows: list[list[Spot]] = [[] for _ in range(max(layer.values()) + 1)]
    for name in graph.order:
        for at in range(layer[name], last[name] + 1):
            rows[at].append((name, at))
    return rows


def _links(graph: Graph, layer: Mapping[str, int], rows: Sequence[Sequence[Spot]]) -> dict[Spot, list[Spot]]:
    """With each spot those of the layer below that ways lead on to."""
    links: dict[Spot, list[Spot]] = {}
    for row in rows:
        for name, at in row:
            ends = [(below, at + 1) for below in graph.needed_by[name] if layer[below] == at + 1]
            passes = [(name, at + 1)] if any(layer[below] > at + 1 for below in graph.needed_by[name]) else []
            links[name, at] = ends + passes
    return links


def _reversed(links: Mapping[Spot, Sequence[Spot]]) -> dict[Spot, list[Spot]]:
    found: dict[Spot, list[Spot]] = {spot: [] for spot in links}
    for spot, below in links.items():
        for each in below:
            found[each].append(spot)
    return found


def _ordered(
    rows: Sequence[Sequence[Spot]], above: Mapping[Spot, Sequence[Spot]], links: Mapping[Spot, Sequence[Spot]]
) -> list[list[Spot]]:
    """The layers, each in an order with few crossings: by the middles of what its spots are linked to, then pair by pair."""
    now = best = [list(row) for row in rows]
    fewest, idle = _crossings(best, links), 0
    while fewest and idle < PATIENCE:
        now = _swept(now, above)
        now = _exchanged(_swept(now[::-1], links)[::-1], above, links)
        crossings, idle = _crossings(now, links), idle + 1
        if crossings < fewest:
            best, fewest, idle = now, crossings, 0
    return best


def _swept(rows: Sequence[Sequence[Spot]], linked: Mapping[Spot, Sequence[Spot]]) -> list[list[Spot]]:
    swept: list[list[Spot]] = []
    place: dict[Spot, int] = {}
    for row in rows:
        middles = {}
        for number, spot in enumerate(row):
            theirs = [place[each] for each in linked[spot] if each in place]
            middles[spot] = sum(theirs) / len(theirs) if theirs else float(number)
        ordered = sorted(row, key=middles.__getitem__)
        place |= {spot: number for number, spot in enumerate(ordered)}
        swept.append(ordered)
    return swept


def _exchanged(
    rows: Sequence[Sequence[Spot]], above: Mapping[Spot, Sequence[Spot]], links: Mapping[Spot, Sequence[Spot]]
) -> list[list[Spot]]:
    """The layers with neighbours exchanged wherever fewer ways cross then."""
    exchanged = [list(row) for row in rows]
    place = {spot: number for row in exchanged for number, spot in enumerate(row)}

    def crossing(one: Sequence[int], other: Sequence[int]) -> int:
        return sum(bisect_left(other, mine) for mine in one)

    for row in exchanged:
        ends = {spot: [sorted(place[each] for each in linked[spot]) for linked in (above, links)] for spot in row}
        for number in range(len(row) - 1):
            one, other = row[number], row[number + 1]
            as_is = sum(map(crossing, ends[one], ends[other]))
            if as_is > sum(map(crossing, ends[other], ends[one])):
                row[number], row[number + 1] = other, one
                place[one], place[other] = number + 1, number
    return exchanged


def _crossings(rows: Sequence[Sequence[Spot]], links: Mapping[Spot, Sequence[Spot]]) -> int:
    count = 0
    for row, below in pairwise(rows):
        place = {spot: number for number, spot in enumerate(below)}
        passed: list[int] = []
        for spot in row:
            ends = sorted(place[each] for each in links[spot])
            count += sum(len(passed) - bisect_left(passed, end + 1) for end in ends)
            for end in ends:
                insort(passed, end)
    return count


def _room(spot: Spot, sizes: Sizes, layer: Mapping[str, int]) -> float:
    return sizes.across if layer[spot[0]] == spot[1] else sizes.passing


def _placed(
    rows: Sequence[Sequence[Spot]],
    above: Mapping[Spot, Sequence[Spot]],
    links: Mapping[Spot, Sequence[Spot]],
    layer: Mapping[str, int],
    sizes: Sizes,
) -> dict[Spot, float]:
    """The middle of each spot's place across: as near to what it is linked to as its layer's order and room allow."""
    steps = {
        number: [(_room(one, sizes, layer) + _room(other, sizes, layer)) / 2 + sizes.beside for one, other in pairwise(row)]
        for number, row in enumerate(rows)
    }
    places: dict[Spot, float] = {}
    for number, row in enumerate(rows):
        at = -sum(steps[number]) / 2
        for spot, step in zip(row, [*steps[number], 0.0], strict=True):
            places[spot] = at
            at += step
    linked = {spot: (*above[spot], *links[spot]) for spot in links}
    for sweep in range(_SWEEPS):
        pulls = linked if sweep == _SWEEPS - 1 else above if sweep % 2 == 0 else links
        for number in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            row = rows[number]
            wanted = [_middle([places[each] for each in pulls[spot]], places[spot]) for spot in row]
            weights = [1 if layer[name] == at else STRAIGHTNESS for name, at in row]
            places |= dict(zip(row, _apart(wanted, weights, steps[number]), strict=True))
    return places


def _middle(places: Sequence[float], own: float) -> float:
    return sum(places) / len(places) if places else own


def _apart(wanted: Sequence[float], weights: Sequence[int], steps: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones (by weighted least squares) that are at least those steps apart."""
    offsets = [0.0]
    for step in steps:
        offsets.append(offsets[-1] + step)
    blocks: list[tuple[float, int, int]] = []
    for place, weight, offset in zip(wanted, weights, offsets, strict=True):
        total, heavy, count = (place - offset) * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / heavy:
            before, weighing, size = blocks.pop()
            total, heavy, count = total + before, heavy + weighing, count + size
        blocks.append((total, heavy, count))
    flat = [total / heavy for total, heavy, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(flat, offsets, strict=True)]
