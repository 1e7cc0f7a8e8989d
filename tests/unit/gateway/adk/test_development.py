"""Drawings of the tree of agents."""

from turnwise.gateway.adk.development import DARK, LIGHT, dot_of

TREE = {"desk": ("orders", 'a "b"\\'), "orders": ("desk",), 'a "b"\\': ("hidden",)}


def test_the_tree_from_an_agent_on() -> None:
    drawn = dot_of(TREE, "desk", "orders")
    assert drawn.startswith("digraph agents {")
    assert drawn.endswith("}")
    assert '"desk" -> "orders";' in drawn
    assert '"desk" -> "a \\"b\\"\\\\";' in drawn
    assert f'"orders" [style="rounded,filled", fillcolor="{LIGHT.highlight}"];' in drawn
    assert drawn.count("filled") == 1
    part = dot_of({"a": ("b",), "b": ()}, "b", dark=True)
    assert ("->" in part, DARK.background in part) == (False, True)


def test_what_is_not_known_is_not_drawn() -> None:
    assert '"x"' not in dot_of({}, "x")
