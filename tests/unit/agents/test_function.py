import functools
from collections.abc import AsyncIterator

import pytest

from turnwise.agents.function import FunctionAgent, agent, make_card
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.tree import Pattern


def test_the_name_and_description_come_from_the_function() -> None:
    @agent
    def find_store() -> str:
        """Finds a store.

        More words.
        """
        return ""

    assert isinstance(find_store, FunctionAgent)
    assert (find_store.card.name, find_store.card.description) == ("find_store", "Finds a store.")


def test_the_card_can_be_filled_in_plain_values() -> None:
    @agent(
        name="Store finder",
        description="",
        patterns=["stores?", {"regex": "open", "confidence": 0.9}, Pattern(regex="near")],
        examples=["where is a store"],
        roles=["staff"],
        resume="never",
        time_limit=3,
    )
    def anything() -> str:
        return ""

    card = anything.card
    assert card.name == "Store finder"
    assert [(p.regex, p.confidence) for p in card.patterns] == [("stores?", 0.8), ("open", 0.9), ("near", 0.8)]
    assert (card.examples, card.roles, card.resume, card.time_limit) == (("where is a store",), ("staff",), "never", 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("colour", "red"),
        ("resume", "sometimes"),
        ("patterns", [{"regex": "x", "confidence": 7}]),
        ("name", "user"),
        ("name", " padded"),
        ("name", "two\nlines"),
        ("name", ""),
        ("time_limit", 0),
    ],
)
def test_a_wrong_card_names_the_field(field: str, value: object) -> None:
    """A16, and every other field."""
    with pytest.raises(AgentDefinitionError, match=field):
        make_card({"name": "a", field: value})


def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    class Desk:
        async def answers(self, message: str) -> str:
            return message

        async def __call__(self, message: str) -> str:
            return message

    async def greets(greeting: str, message: str) -> str:
        return f"{greeting} {message}"

    for each in (Desk().answers, Desk(), functools.partial(greets, "hello")):
        assert agent(name="a", description="")(each).card.name == "a"


def test_parameters_are_message_and_context_or_have_a_default() -> None:
    @agent
    async def fine(message: str, *, tone: str = "warm", **rest: object) -> AsyncIterator[str]:
        yield tone

    with pytest.raises(AgentDefinitionError, match="'tone'"):

        @agent
        def needs_more(message: str, tone: str) -> str:
            return tone

    with pytest.raises(AgentDefinitionError, match="slash"):

        @agent
        def positional(message: str, /) -> str:
            return message


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="not a function"):
        FunctionAgent(3, make_card({"name": "a"}))  # type: ignore[arg-type]
