"""What flows and tasks are made with."""

from collections.abc import Callable
from typing import Any

import pytest

from turnwise.agents.function import agent
from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.argument_checks import (
    agent_name,
    as_tuple,
    check_bool,
    check_object,
    check_positive,
    check_text,
    kind_capitalized,
    kind_of,
)


@agent
def writer(message: str) -> str:
    return message


class Drum:
    name = "drum"


def test_a_value_is_called_what_it_is() -> None:
    values: list[Any] = [3, "x", [], None, int, {}, writer, ...]
    assert [kind_of(value) for value in values] == [
        "an int",
        "a str",
        "a list",
        "None",
        "the class int",
        "a dict",
        "a FunctionAgent",
        "an ellipsis",
    ]
    assert [kind_capitalized(value) for value in (3, None, writer)] == ["An int", "None", "A FunctionAgent"]


def test_what_fits_is_given_back() -> None:
    assert as_tuple("It", "agents", ["a", "b"]) == ("a", "b")
    assert (agent_name("It", writer), agent_name("It", "anybody")) == ("writer", "anybody")
    assert (check_text("It", "name", ""), check_bool("It", "open", False), check_positive("It", "tries", 1)) == ("", False, 1)
    drum = Drum()
    assert check_object("It", "sound", drum, ("name",), "Drum()") is drum


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda: as_tuple("It", "agents", "abc"), "It: agents is a str. Give a list."),
        (lambda: as_tuple("It", "agents", {"a"}), "It: agents is a set. Give a list."),  # type: ignore[arg-type]
        (lambda: agent_name("It", ""), "It: '' is no agent. Give agents, or their names."),
        (lambda: agent_name("It", Drum()), "It: a Drum is no agent."),  # type: ignore[arg-type]
        (lambda: agent_name("It", Drum), "It: the class Drum is no agent. Give agents, or their names."),  # type: ignore[arg-type]
        (lambda: agent_name("It", lambda: 1), "It: a function is no agent. Make an agent of it with @agent."),  # type: ignore[arg-type]
        (lambda: check_text("It", "word", 3, instead="Say it."), "It: word is an int. Say it."),  # type: ignore[arg-type]
        (lambda: check_text("It", "word", None), "It: word is None. Give a text."),  # type: ignore[arg-type]
        (lambda: check_bool("It", "open", 1), "It: open is an int. Give True or False."),  # type: ignore[arg-type]
        (lambda: check_positive("It", "tries", "3"), "It: tries is a str. Give a whole number"),  # type: ignore[arg-type]
        (lambda: check_positive("It", "tries", True), "It: tries is a bool. Give a whole number"),
        (lambda: check_positive("It", "tries", 0), "It: tries is 0. Use 1 or more."),
        (lambda: check_object("It", "sound", 3, ("name",), "Drum()"), "It: sound is an int. Give an object such as Drum()."),
        (
            lambda: check_object("It", "sound", int, ("name",), "Drum()"),
            "It: sound is the class int. Give an object such as Drum().",
        ),
        (
            lambda: check_object("It", "sound", Drum, ("name",), "Drum()"),
            "It: sound is the class Drum. Make one of it: Drum(…).",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_owner(check: Callable[[], Any], says: str) -> None:
    with pytest.raises(FlowDefinitionError) as raised:
        check()
    assert str(raised.value).startswith(says)
