"""An agent of code at a place that a file gives it."""

from turnwise.agents.composite import Sequential
from turnwise.agents.function import agent
from turnwise.config.entries import PlacedAgent


def test_a_placed_agent_keeps_its_children_and_gets_more() -> None:
    @agent
    def inner() -> None: ...

    @agent(children=[inner])
    def outer() -> None: ...

    @agent
    def added() -> None: ...

    card = outer.card.replace(description="another")
    placed = PlacedAgent(outer, card, [added])
    assert [child.card.name for child in placed.children] == ["inner", "added"]
    assert placed.card.description == "another"
    assert "outer" in repr(placed)
    assert [child.card.name for child in Sequential("flow", [placed]).children] == ["outer"]
