from collections.abc import AsyncIterator, Sequence

import pytest

from turnwise.agents.composite import Sequential
from turnwise.agents.function import FunctionAgent, agent
from turnwise.agents.members import collect
from turnwise.facts.errors import DuplicateAgent, FlowDefinitionError, TreeCycle, TreeError
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


def leaf(name: str, *children: Agent) -> FunctionAgent:
    @agent(name=name, children=children)
    def answers() -> str:
        return name

    return answers


class OwnAgent:
    """An agent that is no function, as a user may write it."""

    def __init__(self, name: str) -> None:
        self.card = AgentCard(name=name)
        self.children: Sequence[Agent] = ()

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        yield context.event("hello")


def test_agents_become_a_tree_with_their_parents_set() -> None:
    agents, tree = collect(leaf("root", leaf("a", leaf("b")), OwnAgent("c")))
    assert list(agents) == ["root", "a", "b", "c"]
    assert [(card.name, card.parent) for card in tree] == [("root", None), ("a", "root"), ("b", "a"), ("c", "root")]


def test_an_agent_under_two_parents_is_an_error_naming_both() -> None:
    """A14."""
    shared = leaf("shared")
    with pytest.raises(DuplicateAgent, match="'shared' stands below 'a' and below 'b'"):
        collect(leaf("root", leaf("a", shared), leaf("b", shared)))


def test_an_agent_twice_under_one_parent_is_an_error() -> None:
    """A14."""
    shared = leaf("shared")
    with pytest.raises(DuplicateAgent, match="twice below 'root'"):
        collect(leaf("root", shared, shared))


def test_an_agent_below_itself_is_an_error() -> None:
    """A14."""
    own = OwnAgent("own")
    own.children = (Sequential("inner", [own]),)
    with pytest.raises(TreeCycle, match="'own' is below itself"):
        collect(own)


def test_two_agents_of_one_name_are_an_error() -> None:
    """A15."""
    with pytest.raises(DuplicateAgent, match="Two agents are named 'twin': below 'a' and below 'b'"):
        collect(leaf("root", leaf("a", leaf("twin")), leaf("b", leaf("twin"))))


def test_agents_that_run_each_other_are_an_error() -> None:
    """D10: whom an agent runs it says itself, but for a composite, which runs its children."""

    class Naming(OwnAgent):
        def __init__(self, name: str, *names: str) -> None:
            super().__init__(name)
            self.delegates_to = names

    inner = Sequential("inner", [Naming("b", "a")])
    with pytest.raises(FlowDefinitionError, match="without an end: 'a' runs 'inner' runs 'b' runs 'a'"):
        collect(leaf("root", Naming("a", "inner"), inner))
    collect(leaf("root", Naming("a", "b"), Naming("b"), leaf("c", Naming("d", "c"))))


def test_the_root_must_be_an_agent() -> None:
    """A17."""
    with pytest.raises(TreeError, match="not an agent"):
        collect("root")  # type: ignore[arg-type]
