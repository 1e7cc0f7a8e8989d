"""Where boxes stand, and ways go."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings, strategies as some

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.layout import Layers, Layout, Sizes
from turnwise.flows.tasks import Graph, Task

SIZES = Sizes(along=40, across=200, between=50, beside=20, passing=10)


def laid(*needs: tuple[int, ...]) -> tuple[Graph, Layout]:
    tasks = [Task(f"t{number}", depends_on=[f"t{need}" for need in theirs]) for number, theirs in enumerate(needs)]
    graph = Graph("flow", tasks)
    return graph, Layers(graph).layout(SIZES)


def crossings(layout: Layout) -> int:
    """Pairs of ways that change places between two layers."""
    found = 0
    for one, other in combinations(layout.ways, 2):
        shared = [
            (one.across[at - start], other.across[at - begin])
            for start, begin in [(layout.boxes[one.source][0], layout.boxes[other.source][0])]
            for at in range(max(start, begin), min(start + len(one.across), begin + len(other.across)))
        ]
        found += any((a - b) * (c - d) < 0 for (a, b), (c, d) in pairwise(shared))
    return found


def test_a_chain_is_straight() -> None:
    _, layout = laid((), (0,), (1,))
    assert [layout.boxes[f"t{number}"] for number in range(3)] == [(0, 100.0), (1, 100.0), (2, 100.0)]
    assert (layout.layers, layout.across) == (3, 200.0)


def test_one_that_needs_two_stands_between_them() -> None:
    _, layout = laid((), (), (0, 1))
    assert layout.boxes["t2"][1] == pytest.approx((layout.boxes["t0"][1] + layout.boxes["t1"][1]) / 2)


def test_crossed_ways_are_uncrossed() -> None:
    _, layout = laid((), (), (1,), (0,))
    assert crossings(layout) == 0
    _, longer = laid((), (), (), (2,), (1,), (0,), (3,), (4,), (5,))
    assert crossings(longer) == 0


def test_what_is_too_tangled_is_refused() -> None:
    with pytest.raises(FlowDefinitionError, match="too large, or too tangled"):
        laid(*(tuple(range(number)) for number in range(110)))


@settings(max_examples=60, deadline=None)
@given(some.lists(some.sets(some.integers(0, 40), max_size=3), min_size=1, max_size=24))
def test_no_box_stands_on_another_and_no_way_leads_through_one(wanted: list[set[int]]) -> None:
    graph, layout = laid(*(tuple(need for need in needs if need < number) for number, needs in enumerate(wanted)))
    by_layer: dict[int, list[float]] = {}
    for layer, middle in layout.boxes.values():
        by_layer.setdefault(layer, []).append(middle)
    for middles in by_layer.values():
        assert all(right - left >= SIZES.across + SIZES.beside - 0.01 for left, right in pairwise(sorted(middles)))
        assert min(middles) >= SIZES.across / 2 - 0.01
        assert max(middles) <= layout.across - SIZES.across / 2 + 0.01
    for way in layout.ways:
        first = layout.boxes[way.source][0]
        assert first + len(way.across) - 1 == layout.boxes[way.target][0]
        for number, place in enumerate(way.across[1:-1], first + 1):
            assert all(abs(place - middle) >= (SIZES.across + SIZES.passing) / 2 - 0.01 for middle in by_layer.get(number, ()))
    assert len(layout.ways) == sum(map(len, graph.needs.values()))
