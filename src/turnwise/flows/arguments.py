"""What flows and tasks are made with, checked: FlowDefinitionError says what of it cannot be, and whose it was."""

from collections.abc import Sequence
from typing import Any, TypeVar

from turnwise.facts.cards import NAME_CHARACTERS, AgentCard, check_name
from turnwise.facts.errors import FlowDefinitionError
from turnwise.ports.agent import Agent

Given = TypeVar("Given")


def kind_of(value: object) -> str:
    """What a value is, in words: `a list`, `an int`, `None`, `the class Popcorn`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def subject(value: object) -> str:
    """The same, to begin a sentence with."""
    words = kind_of(value)
    return f"{words[:1].upper()}{words[1:]}"


def listed(owner: str, field: str, given: Sequence[Given]) -> tuple[Given, ...]:
    """What was given as a list. A text is none, nor is a single thing."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix="Give a list.")
    return tuple(given)


def agent_name(owner: str, given: Agent | str) -> str:
    """The name of an agent that is given as an object, or by its name."""
    if isinstance(given, str):
        try:
            return check_name(given)
        except ValueError:
            raise _no_agent(owner, repr(given[:NAME_CHARACTERS])) from None
    card = getattr(given, "card", None)
    if not isinstance(card, AgentCard):
        raise _no_agent(owner, kind_of(given), is_function=callable(given) and not isinstance(given, type))
    return card.name


def text(owner: str, field: str, given: str, *, instead: str = "") -> str:
    """A text. instead: what to write when it was something else that was meant."""
    if not isinstance(given, str):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix=instead or "Give a text.")
    return given


def truth(owner: str, field: str, given: bool) -> bool:
    """True or False, nothing that merely counts as one of them."""
    if not isinstance(given, bool):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix="Give True or False.")
    return given


def at_least_one(owner: str, field: str, number: int) -> int:
    """A whole number of 1 or more."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise FlowDefinitionError(f"{owner}: {field} is {kind_of(number)}.", fix="Give a whole number of 1 or more.")
    if number < 1:
        raise FlowDefinitionError(f"{owner}: {field} is {number}.", fix="Use 1 or more.")
    return number


def check_object(owner: str, field: str, given: Any, needs: Sequence[str], example: str) -> Any:
    """An object that has the attributes in `needs`; a class that has them is none yet. example: what one looks like."""
    is_one = all(hasattr(given, name) for name in needs)
    if is_one and not isinstance(given, type):
        return given
    fix = f"Make one of it: {given.__name__}(…)." if is_one else f"Give an object such as {example}."
    raise FlowDefinitionError(f"{owner}: {field} is {kind_of(given)}.", fix=fix)


def _no_agent(owner: str, shown: str, *, is_function: bool = False) -> FlowDefinitionError:
    fix = "Make an agent of it with @agent." if is_function else "Give agents, or their names."
    return FlowDefinitionError(f"{owner}: {shown} is no agent.", fix=fix)
