"""Mistakes in values, told in the words of somebody who writes YAML."""

from pathlib import Path
from typing import Any

import pytest

from turnwise.config.places import Document
from turnwise.config.validation import validated
from turnwise.facts.cards import AgentCard
from turnwise.facts.limits import Limits


def told(data: dict[str, Any], lines: dict[tuple[str | int, ...], int] | None = None) -> list[str]:
    document = Document(Path("t.yaml"), {}, lines or {})
    assert validated(document, ("agents", 0), AgentCard, {"name": "a", **data}) is None
    return [str(error) for error in document.problems]


def test_lists_become_tuples_and_whole_numbers_are_numbers() -> None:
    document = Document(Path("t.yaml"), {}, {})
    card = validated(document, (), AgentCard, {"name": "a", "examples": ["x"], "patterns": [{"regex": "r", "confidence": 1}]})
    assert card is not None
    assert card.examples == ("x",)
    assert card.patterns[0].confidence == 1.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"descripton": "x"}, "There is no key 'descripton' here. Did you mean 'description'?"),
        ({"patterns": [{"regexp": "x"}]}, "There is no key 'patterns[0].regexp' here. Did you mean 'regex'?"),
        ({"patterns": [{"confidence": 0.5}]}, "The key 'patterns[0].regex' is missing. Add it."),
        ({"patterns": "x"}, "'patterns' should be a list, but is text. Write a list."),
        ({"examples": [1]}, "'examples[0]' should be text, but is a number. Put it in quotes."),
        ({"description": False}, "'description' should be text, but is true or false. Put it in quotes."),
        ({"enabled": "yes"}, "'enabled' should be true or false, but is text."),
        ({"time_limit": "3"}, "'time_limit' should be a number, but is text."),
        ({"time_limit": 0}, "'time_limit' should be greater than 0."),
        ({"resume": "nevr"}, "'resume' should be 'auto', 'never' or 'always'. Did you mean 'never'?"),
        ({"name": "user"}, "'name': The agent name 'user' is reserved"),
        ({"skills": [{"name": "s", "example": []}]}, "There is no key 'skills[0].example' here."),
    ],
)
def test_a_mistake_says_what_and_how(data: dict[str, Any], message: str) -> None:
    found = [text for text in told(data) if message in text]
    assert len(found) == 1


def test_a_mistake_stands_in_the_nearest_known_line() -> None:
    lines: dict[tuple[str | int, ...], int] = {("agents", 0): 3, ("agents", 0, "patterns", 1): 7}
    patterns = [{"regex": "x"}, {"regex": "x", "confidence": 7}]
    (problem,) = told({"patterns": patterns}, lines)
    assert problem.startswith("t.yaml:7: 'patterns[1].confidence' should be less than or equal to 1")


def test_every_mistake_is_told() -> None:
    document = Document(Path("t.yaml"), {}, {})
    assert validated(document, ("limits",), Limits, {"turns": "4", "queu": 1, "events": 0}) is None
    assert len(document.problems) == 3
