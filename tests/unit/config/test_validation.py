"""Mistakes in values, told in the words of somebody who writes YAML."""

from pathlib import Path
from typing import Any

import pytest
from config_play import line_only

from turnwise.config.document import Document, Mark
from turnwise.config.validation import Section, validated
from turnwise.facts.limits import Limits
from turnwise.facts.tree import AgentCard


class Card(Section, AgentCard):
    pass


class Holder(Section):
    agents: tuple[Card, ...] = ()
    limits: Limits = Limits()


def read(data: dict[str, Any], marks: dict[tuple[str | int, ...], Mark] | None = None) -> tuple[Holder, Document]:
    found = validated(Document(Path("t.yaml"), data, marks or {}), Holder)
    assert found is not None
    return found


def told(data: dict[str, Any], marks: dict[tuple[str | int, ...], Mark] | None = None) -> list[str]:
    _, document = read({"agents": [{"name": "a", **data}]}, marks)
    return [line_only(error) for error in document.problems]


def test_lists_become_tuples_and_whole_numbers_are_numbers() -> None:
    holder, document = read({"agents": [{"name": "a", "examples": ["x"], "patterns": [{"regex": "r", "confidence": 1}]}]})
    assert document.problems == ()
    assert holder.agents[0].examples == ("x",)
    assert holder.agents[0].patterns[0].confidence == 1.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"descripton": "x"}, "There is no key 'descripton' here. Did you mean 'description'?"),
        ({"patterns": [{"regexp": "x"}]}, "There is no key 'patterns[0].regexp' here. Did you mean 'regex'?"),
        ({"patterns": [{"confidence": 0.5}]}, "The key 'patterns[0].regex' is missing. Add it."),
        ({"patterns": "x"}, "'patterns' should be a list, but is text. Write `- ` before each item."),
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
    marks: dict[tuple[str | int, ...], Mark] = {("agents", 0): Mark(3), ("agents", 0, "patterns", 1): Mark(7, 9)}
    patterns = [{"regex": "x"}, {"regex": "x", "confidence": 7}]
    (problem,) = told({"patterns": patterns}, marks)
    assert problem.startswith("t.yaml:7: 'patterns[1].confidence' should be less than or equal to 1")


def test_every_mistake_is_told() -> None:
    holder, document = read({"limits": {"turns": "4", "queu": 1, "events": 0, "steps": 3}})
    assert len(document.problems) == 3
    assert holder.limits == Limits(steps=3)
