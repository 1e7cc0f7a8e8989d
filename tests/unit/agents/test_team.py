"""What is wrong with a team is found when it is made (B1, B3, B7)."""

from typing import Any

import pytest

from turnwise import Team, agent
from turnwise.facts.errors import AgentDefinitionError
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import Identity, Iterative


@agent
def one() -> str:
    return "1"


@agent
def two() -> str:
    return "2"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"selector": Iterative(order=["one", "three"])}, "names 'three', which is not a member"),
        ({"selector": Conversational(lead="three")}, "names 'three', which is not a member"),
        ({"selector": Identity("three")}, "names 'three', which is not a member"),
        ({"selector": "iterative"}, "is the text 'iterative', which has no method `select`"),
        ({"selector": None}, "is a NoneType, which has no method `select`"),
        ({"selector": Conversational}, "is the class Conversational, which has no method `select`"),
        ({"selector": Conversational(), "ends": "never"}, "cannot end 'never'"),
        ({"selector": Conversational(), "lead": "three"}, "The lead 'three' of team 'desk' is not a member"),
    ],
)
def test_a_mistake_is_told_with_its_fix(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(AgentDefinitionError, match=problem) as caught:
        Team("desk", [one, two], **given)
    assert caught.value.fix


def test_a_selector_that_cannot_be_awaited_is_found() -> None:
    """B7: as in a policy; each of its turns would be passed over."""

    class Plain:
        name = "plain"

        def select(self, request: object) -> None: ...

    selector: Any = Plain()
    with pytest.raises(AgentDefinitionError, match="`select` is not `async`"):
        Team("desk", [one, two], selector=selector)


def test_a_selector_needs_a_name() -> None:
    class Nameless:
        async def select(self, request: object) -> None: ...

    selector: Any = Nameless()
    with pytest.raises(AgentDefinitionError, match="has no `name`"):
        Team("desk", [one, two], selector=selector)
