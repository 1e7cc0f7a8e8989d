"""Who belongs to a flow."""

import pytest

from turnwise.agents.function import agent
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.flows.flow import agent_objects, agents_to_run, check_agents_in_tree, check_single_agent
from turnwise.flows.strategies import Moderated, Popcorn, Single

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
    assert agent_objects([writer, "other", writer]) == (writer,)


def test_names_stand_anywhere_in_the_tree_but_not_above_the_flow() -> None:
    check_agents_in_tree("flow", ["writer", "other"], TREE)
    with pytest.raises(FlowDefinitionError, match=r"'critic', which does not exist.*Known: writer, other"):
        check_agents_in_tree("flow", ["writer", "critic"], TREE)
    with pytest.raises(FlowDefinitionError, match="Did you mean 'writer'"):
        check_agents_in_tree("flow", ["writr"], TREE)
    for name, told in (("desk", "names 'desk', in which it stands itself"), ("flow", "names itself")):
        with pytest.raises(FlowDefinitionError, match=told):
            check_agents_in_tree("flow", [name], TREE)


def test_a_moderator_is_run_too() -> None:
    assert agents_to_run(["writer"], Moderated("judge")) == ("writer", "judge")
    assert agents_to_run(["writer"], Popcorn()) == ["writer"]


def test_who_is_to_take_every_turn_has_something_to_do() -> None:
    check_single_agent("flow", ["writer"], Single("writer"))
    check_single_agent("flow", ["writer"], Single())
    with pytest.raises(FlowDefinitionError, match=r"'flow': Single gives every turn to 'writr'.*Did you mean 'writer'"):
        check_single_agent("flow", ["writer"], Single("writr"))
