"""The options that commands share."""

import pytest
import typer

from turnwise.cli.options import message_context
from turnwise.facts.messages import MessageContext


def test_a_context_from_json() -> None:
    given = '{"channel": "web", "roles": ["staff"], "attributes": {"customer": 7}}'
    assert message_context(given) == MessageContext(channel="web", roles=("staff",), attributes={"customer": 7})
    assert message_context(None) == MessageContext()


@pytest.mark.parametrize(
    ("given", "roles", "all_roles"),
    [
        (None, ["staff"], ("staff",)),
        (None, ["staff", "night", "staff"], ("staff", "night")),
        ('{"roles": ["boss"]}', ["staff"], ("boss", "staff")),
        ('{"roles": ["staff"]}', [], ("staff",)),
    ],
)
def test_roles_are_added_to_those_of_the_context(given: str | None, roles: list[str], all_roles: tuple[str, ...]) -> None:
    """C20."""
    assert message_context(given, roles).roles == all_roles


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{", "This is not JSON"),
        ("[]", "This should be keys and values, but is a list."),
        ('{"chanel": "web"}', "There is no key 'chanel' here. Did you mean 'channel'?"),
        ('{"roles": "staff"}', "'roles' should be a list, but is text."),
        ('{"channel": 3}', "'channel' should be text, but is a number."),
    ],
)
def test_a_wrong_context_is_told(given: str, problem: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        message_context(given)
    assert problem in caught.value.message
