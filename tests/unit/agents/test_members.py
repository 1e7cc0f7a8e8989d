"""The agents that an agent is given are checked when it is made."""

from collections.abc import Callable
from typing import Any

import pytest

from turnwise import LlmAgent, Loop, Parallel, Sequential, Team, agent
from turnwise.facts.errors import AgentDefinitionError
from turnwise.selection.conversational import Conversational
from turnwise.testing.models import FunctionModel


@agent
def clerk(message: str) -> str:
    return message


class Clerk:
    """A class that somebody forgot to call."""

    card = clerk.card


def plain(message: str) -> str:
    return message


OWNERS: list[Callable[[Any], Any]] = [
    lambda given: Sequential("desk", given),
    lambda given: Loop("desk", given),
    lambda given: Parallel("desk", given),
    lambda given: Team("desk", given, selector=Conversational()),
    lambda given: LlmAgent("desk", model=FunctionModel(lambda _: "hi"), children=given),
    lambda given: agent(name="desk", children=given)(plain),
]


@pytest.mark.parametrize("own", OWNERS)
@pytest.mark.parametrize(
    ("wrong", "fix"),
    [(plain, "@agent"), (lambda message: message, "@agent"), ("clerk", "not its name"), (Clerk, "instance"), (7, "LlmAgent")],
)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_what_is_no_agent_is_refused_with_its_place(own: Callable[[Any], Any], wrong: object, fix: str, place: int) -> None:
    given: list[object] = [clerk, clerk]
    given.insert(place - 1, wrong)
    with pytest.raises(AgentDefinitionError, match=rf"Number {place} below 'desk'") as refused:
        own(given)
    assert fix in str(refused.value)


@pytest.mark.parametrize("own", OWNERS)
@pytest.mark.parametrize("given", ["clerk", clerk, 7])
def test_one_agent_is_no_list_of_them(own: Callable[[Any], Any], given: object) -> None:
    with pytest.raises(AgentDefinitionError, match="'desk'"):
        own(given)


@pytest.mark.parametrize("own", OWNERS)
def test_agents_from_a_generator_are_kept_in_order(own: Callable[[Any], Any]) -> None:
    made = own(each for each in (clerk,))
    assert tuple(made.children) == (clerk,)
