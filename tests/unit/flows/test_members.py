"""Who belongs to a flow."""

import pytest

from turnwise.agents.function import agent
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.tree import AgentTree
from turnwise.flows.members import name_of, objects_in, refuse_strangers
from turnwise.flows.strategies import Moderated, Popcorn

TREE = AgentTree(
    [
        AgentCard(name="desk"),
        AgentCard(name="flow", kind="flow", parent="desk"),
        AgentCard(name="writer", parent="flow"),
        AgentCard(name="other", parent="desk"),
    ]
)


@agent
def writer(message: str) -> str:
    return message


def test_objects_become_children_once_and_names_do_not() -> None:
    assert objects_in([writer, "other", writer]) == (writer,)
    assert (name_of(writer), name_of("other")) == ("writer", "other")


def test_names_stand_anywhere_in_the_tree_but_not_above_the_flow() -> None:
    refuse_strangers("flow", ["writer", "other"], Popcorn(), TREE)
    with pytest.raises(FlowDefinitionError, match=r"'critic', which does not exist.*Known: writer, other"):
        refuse_strangers("flow", ["writer", "critic"], Popcorn(), TREE)
    with pytest.raises(FlowDefinitionError, match="Did you mean 'writer'"):
        refuse_strangers("flow", ["writr"], Popcorn(), TREE)
    for name in ("desk", "flow"):
        with pytest.raises(FlowDefinitionError, match="in which it stands itself"):
            refuse_strangers("flow", [name], Popcorn(), TREE)
    with pytest.raises(FlowDefinitionError, match="'judge', which does not exist"):
        refuse_strangers("flow", ["writer"], Moderated("judge"), TREE)
