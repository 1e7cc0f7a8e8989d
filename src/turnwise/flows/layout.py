"""Layered graph layout: the positions of boxes and edges, with no edge through a box. Pure.

A box's layer is one above the highest layer of the boxes that it needs. An edge that crosses a layer gets a slot there,
like a box; all edges from one box share the slot.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.tasks import Graph

MOST_DRAWN = 5_000
"""The most boxes, edges and crossed layers, counted together."""
PATIENCE = 3
"""The number of rounds without an improvement after which ordering stops."""
_SWEEPS = 12
STRAIGHTNESS = 8
"""How much more strongly an edge's slot keeps its desired position than a box does."""

Slot = tuple[str, int]
"""A slot: a box in its layer, or the edges from that box as they cross a higher layer."""


class Sizes(NamedTuple):
    """Sizes and distances, in the units of the drawing."""

    along: float
    """The size of a box in the direction of the edges."""
    across: float
    """The size of a box in the other direction."""
    between: float
    """The distance between layers."""
    beside: float
    """The distance within a layer."""
    passing: float
    """The room for edges that cross a layer."""


class Edge(NamedTuple):
    """An edge from a box to one that needs it."""

    source: str
    target: str
    across: tuple[float, ...]
    """The position in each layer, from the layer of the source to that of the target."""


class Layout(NamedTuple):
    """The positions of a drawing."""

    boxes: Mapping[str, tuple[int, float]]
    """The layer and the center of each box."""
    ways: tuple[Edge, ...]
    """The edges."""
    layers: int
    """The number of layers."""
    across: float
    """The size across all layers."""


class Layers:
    """The layers of a graph, each ordered for few crossings, for any drawing direction.

    Raises:
        FlowDefinitionError: There are more than 5,000 boxes, edges and crossed layers.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._layer = _layers(graph)
        rows = _slots(graph, self._layer)
        self._links = _links(graph, self._layer, rows)
        self._above = _reversed(self._links)
        self._rows = _ordered(rows, self._above, self._links)

    def layout(self, sizes: Sizes) -> Layout:
        """Returns the positions for boxes and distances of these sizes."""
        layer = self._layer
        places = _positions(self._rows, self._above, self._links, layer, sizes)
        low = min(place - _extent(spot, sizes, layer) / 2 for spot, place in places.items())
        high = max(place + _extent(spot, sizes, layer) / 2 for spot, place in places.items())
        moved = {spot: place - low for spot, place in places.items()}
        boxes = {name: (layer[name], moved[name, layer[name]]) for name in self._graph.order}
        ways = [self._edge(need, name, moved) for name in self._graph.order for need in self._graph.needs[name]]
        return Layout(boxes, tuple(ways), len(self._rows), high - low)

    def _edge(self, source: str, target: str, places: Mapping[Slot, float]) -> Edge:
        passed = (places[source, at] for at in range(self._layer[source], self._layer[target]))
        return Edge(source, target, (*passed, places[target, self._layer[target]]))


def _layers(graph: Graph) -> dict[str, int]:
    layers: dict[str, int] = {}
    for name in graph.order:
        layers[name] = max((layers[need] + 1 for need in graph.needs[name]), default=0)
    return layers


def _slots(graph: Graph, layer: Mapping[str, int]) -> list[list[Slot]]:
    """Returns the slots of each layer, in the graph's order."""
    last = {name: max((layer[below] - 1 for below in graph.needed_by[name]), default=layer[name]) for name in graph.order}
    if sum(last[name] - layer[name] + 1 + len(graph.needs[name]) for name in graph.order) > MOST_DRAWN:
        problem = f"The graph of {graph.flow!r} is too large, or too tangled, to be drawn."
        raise FlowDefinitionError(problem, fix="Show it as Mermaid, or at the terminal.")
    rows: list[list[Slot]] = [[] for _ in range(max(layer.values()) + 1)]
    for name in graph.order:
        for at in range(layer[name], last[name] + 1):
            rows[at].append((name, at))
    return rows


def _links(graph: Graph, layer: Mapping[str, int], rows: Sequence[Sequence[Slot]]) -> dict[Slot, list[Slot]]:
    """Returns, for each slot, the slots of the next layer that edges lead to."""
    links: dict[Slot, list[Slot]] = {}
    for row in rows:
        for name, at in row:
            ends = [(below, at + 1) for below in graph.needed_by[name] if layer[below] == at + 1]
            passes = [(name, at + 1)] if any(layer[below] > at + 1 for below in graph.needed_by[name]) else []
            links[name, at] = ends + passes
    return links


def _reversed(links: Mapping[Slot, Sequence[Slot]]) -> dict[Slot, list[Slot]]:
    reverse: dict[Slot, list[Slot]] = {spot: [] for spot in links}
    for spot, below in links.items():
        for each in below:
            reverse[each].append(spot)
    return reverse


def _ordered(
    rows: Sequence[Sequence[Slot]], above: Mapping[Slot, Sequence[Slot]], links: Mapping[Slot, Sequence[Slot]]
) -> list[list[Slot]]:
    """Orders each layer for few crossings: first by the mean position of linked slots, then by exchanging neighbours."""
    now = best = [list(row) for row in rows]
    fewest, idle = _crossings(best, links), 0
    while fewest and idle < PATIENCE:
        now = _by_mean_position(now, above)
        now = _with_exchanges(_by_mean_position(now[::-1], links)[::-1], above, links)
        crossings, idle = _crossings(now, links), idle + 1
        if crossings < fewest:
            best, fewest, idle = now, crossings, 0
    return best


def _by_mean_position(rows: Sequence[Sequence[Slot]], linked: Mapping[Slot, Sequence[Slot]]) -> list[list[Slot]]:
    """Orders each row by the mean position of the linked slots in the row before."""
    swept: list[list[Slot]] = []
    place: dict[Slot, int] = {}
    for row in rows:
        middles = {}
        for number, spot in enumerate(row):
            theirs = [place[each] for each in linked[spot] if each in place]
            middles[spot] = sum(theirs) / len(theirs) if theirs else float(number)
        ordered = sorted(row, key=middles.__getitem__)
        place |= {spot: number for number, spot in enumerate(ordered)}
        swept.append(ordered)
    return swept


def _with_exchanges(
    rows: Sequence[Sequence[Slot]], above: Mapping[Slot, Sequence[Slot]], links: Mapping[Slot, Sequence[Slot]]
) -> list[list[Slot]]:
    """Exchanges neighbours in each layer wherever this reduces crossings."""
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


def _crossings(rows: Sequence[Sequence[Slot]], links: Mapping[Slot, Sequence[Slot]]) -> int:
    """Counts the crossings of edges between neighbouring rows."""
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


def _extent(spot: Slot, sizes: Sizes, layer: Mapping[str, int]) -> float:
    return sizes.across if layer[spot[0]] == spot[1] else sizes.passing


def _positions(
    rows: Sequence[Sequence[Slot]],
    above: Mapping[Slot, Sequence[Slot]],
    links: Mapping[Slot, Sequence[Slot]],
    layer: Mapping[str, int],
    sizes: Sizes,
) -> dict[Slot, float]:
    """Returns the center of each slot, as near to its linked slots as the order and the room allow."""
    steps = {
        number: [(_extent(one, sizes, layer) + _extent(other, sizes, layer)) / 2 + sizes.beside for one, other in pairwise(row)]
        for number, row in enumerate(rows)
    }
    places: dict[Slot, float] = {}
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
            wanted = [_mean([places[each] for each in pulls[spot]], places[spot]) for spot in row]
            weights = [1 if layer[name] == at else STRAIGHTNESS for name, at in row]
            places |= dict(zip(row, _spread(wanted, weights, steps[number]), strict=True))
    return places


def _mean(places: Sequence[float], own: float) -> float:
    return sum(places) / len(places) if places else own


def _spread(wanted: Sequence[float], weights: Sequence[int], steps: Sequence[float]) -> list[float]:
    """Returns the positions nearest to the wanted ones, by weighted least squares, that keep the minimum distances."""
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
