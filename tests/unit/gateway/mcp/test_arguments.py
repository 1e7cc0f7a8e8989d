"""What tools take: what models are shown of it, and what is refused in which words."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.mcp.schema import Answered, Arguments, Ask, AskAgent, Decided, Explain, Select, parse_arguments, schema_of

EVERY: tuple[type[Arguments], ...] = (Ask, AskAgent, Select, Explain)


@pytest.mark.parametrize("model", [*EVERY, Answered, Decided])
def test_schemas_are_sound_and_plain(model: Any) -> None:
    schema = schema_of(model)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert "title" not in schema
    assert "null" not in str(schema)


@pytest.mark.parametrize("model", EVERY)
def test_models_are_told_of_each_argument(model: type[Arguments]) -> None:
    schema = schema_of(model)
    assert schema["additionalProperties"] is False
    assert all(field["description"].endswith((".", "`.")) for field in schema["properties"].values())


def test_what_may_be_left_out_may_be_null() -> None:
    given = {"message": "hi", "session": None, "agent": None}
    assert parse_arguments(Ask, given) == Ask(message="hi")


@pytest.mark.parametrize(
    ("given", "problem", "where"),
    [
        (None, "The key 'message' is missing.", ("arguments", "message")),
        ({"message": "hi", "user": "bob"}, "There is no key 'user' here.", ("arguments", "user")),
        ({"mesage": "hi"}, "There is no key 'mesage' here.", ("arguments", "mesage")),
        ({"message": "hi", "approved": 1}, "'approved' should be true or false", ("arguments", "approved")),
        ({"message": "\ud800"}, "'message'", ("arguments", "message")),
        ({"x" * 9_000: 1}, "There is no key", ("arguments", "x" * 9_000)),
    ],
)
def test_a_mistake_names_its_place(given: Any, problem: str, where: tuple[str, ...]) -> None:
    with pytest.raises(RequestInvalid, match="The arguments are: message, session") as caught:
        parse_arguments(Ask, given)
    assert caught.value.problem.startswith(problem)
    assert caught.value.where == where
    assert len(caught.value.problem) < 400
