"""Argument checks for flows and tasks. A FlowDefinitionError names the owner and the problem."""

from collections.abc import Sequence
from typing import Any, TypeVar

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.tree import NAME_CHARACTERS, AgentCard, check_name
from turnwise.ports.agent import Agent

Given = TypeVar("Given")


def kind_of(value: object) -> str:
    """Returns the kind of a value in words: `a list`, `an int`, `None`, `the class Popcorn`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def kind_capitalized(value: object) -> str:
    """Returns `kind_of`, capitalized for the beginning of a sentence."""
    words = kind_of(value)
    return f"{words[:1].upper()}{words[1:]}"


def as_tuple(owner: str, field: str, given: Sequence[Given]) -> tuple[Given, ...]:
    """Returns the sequence as a tuple. Raises FlowDefinitionError for strings and for single values."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix="Give a list.")
    return tuple(given)


def agent_name(owner: str, given: Agent | str) -> str:
    """Returns the name of an agent that is given as an object or by its name."""
    if isinstance(given, str):
        try:
            return check_name(given)
        except ValueError:
            raise _no_agent(owner, repr(given[:NAME_CHARACTERS])) from None
    card = getattr(given, "card", None)
    if not isinstance(card, AgentCard):
        raise _no_agent(owner, kind_of(given), is_function=callable(given) and not isinstance(given, type))
    return card.name


def check_text(owner: str, field: str, given: str, *, instead: str = "") -> str:
    """Checks that the value is a string. `instead` is the fix if it is not."""
    if not isinstance(given, str):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix=instead or "Give a text.")
    return given


def check_bool(owner: str, field: str, given: bool) -> bool:
    """Checks that the value is True or False, not merely truthy or falsy."""
    if not isinstance(given, bool):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix="Give True or False.")
    return given


def check_positive(owner: str, field: str, number: int) -> int:
    """Checks that the value is an integer of 1 or more."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(number)}.", fix="Give a whole number of 1 or more.")
    if number < 1:
        raise FlowDefinitionError(f"{owner}: {field} is {number}.", fix="Use 1 or more.")
    return number


def check_object(owner: str, field: str, given: Any, needs: Sequence[str], example: str) -> Any:
    """Checks that the value is an object with the attributes in `needs`, not a class.

    Args:
        example: An expression for such an object; the fix shows it.
    """
    is_one = all(hasattr(given, name) for name in needs)
    if is_one and not isinstance(given, type):
        return given
    fix = f"Make one of it: {given.__name__}(…)." if is_one else f"Give an object such as {example}."
    raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix=fix)


def _no_agent(owner: str, shown: str, *, is_function: bool = False) -> FlowDefinitionError:
    fix = "Make an agent of it with @agent." if is_function else "Give agents, or their names."
    return FlowDefinitionError(f"{owner}: {shown} is no agent.", fix=fix)
