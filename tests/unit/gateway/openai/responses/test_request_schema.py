"""What a request for a response may say."""

from typing import Any

import pytest
from openai.types.responses.input_token_count_params import InputTokenCountParams
from openai.types.responses.response_compact_params import ResponseCompactParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.messages import OfferedTool
from turnwise.gateway.openai.responses.input import Compact
from turnwise.gateway.openai.responses.routes import CountTokens
from turnwise.gateway.openai.responses.schema import Create, check_supported, read_create


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Create, ResponseCreateParamsBase), (Compact, ResponseCompactParams), (CountTokens, InputTokenCountParams)],
)
def test_every_parameter_of_the_client_is_known(ours: Any, theirs: Any) -> None:
    assert theirs.__annotations__.keys() - ours.model_fields.keys() == set()


def test_a_text_is_a_users_message() -> None:
    assert read_create({"input": "hi"}).input == [{"role": "user", "content": "hi"}]
    assert read_create({"conversation": {"id": "c"}}).conversation == "c"
    assert read_create({"conversation": "c"}).conversation == "c"


def test_what_was_said_is_given_back_and_nothing_else() -> None:
    body = read_create({"input": "hi", "temperature": 0.5, "store": False, "tool_choice": "auto", "model": "m"})
    assert body.repeated == {"temperature": 0.5, "tool_choice": "auto"}


def test_functions_are_offered_unless_none_is_to_be_called() -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
    bare = {"type": "function", "name": "stop", "description": None, "parameters": None}
    assert read_create({"tools": [tool, bare]}).offered == (
        OfferedTool(name="look", parameters={"type": "object"}),
        OfferedTool(name="stop"),
    )
    assert read_create({"tools": [tool], "tool_choice": "none"}).offered == ()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ([], ("body",)),
        ({"input": 1}, ("body", "input")),
        ({"stream": "perhaps"}, ("body", "stream")),
        ({"metadata": {"k" * 65: "v"}}, None),
        ({"metadata": {"k": "v" * 513}}, ("body", "metadata", "k")),
        ({"stream_options": {"x": 1}}, ("body", "stream_options", "x")),
        ({"previous_response_id": "r", "conversation": "c"}, ("body", "previous_response_id")),
        ({"tool_choice": {"type": "function", "name": "look"}}, ("body", "tool_choice")),
        ({"text": {"format": {"type": "json_object"}}}, ("body", "text", "format")),
        ({"text": {"format": "text"}}, ("body", "text", "format")),
    ],
)
def test_a_mistake_is_told_at_its_place(given: Any, where: tuple[str, ...] | None) -> None:
    with pytest.raises(RequestInvalid) as refused:
        read_create(given)
    assert where is None or refused.value.where == where


def test_an_ordinary_body_is_good() -> None:
    check_supported(
        Create(input=[], truncation="auto", text={"format": {"type": "text"}}, include=["reasoning.encrypted_content"])
    )
