"""What cannot be done, refused by name."""

from typing import Any

import pytest

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.errors import check_response_format, invalid_parameter, log_probabilities_error


def test_the_place_is_one_in_the_body() -> None:
    assert invalid_parameter("stop", "No.").where == ("body", "stop")
    assert invalid_parameter(("messages", 0), "No.", fix="Do.").where == ("body", "messages", 0)
    assert log_probabilities_error("logprobs").where == ("body", "logprobs")


@pytest.mark.parametrize("form", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {}}, {}, "text", 5, []])
def test_a_form_other_than_text(form: Any) -> None:
    with pytest.raises(RequestInvalid) as error:
        check_response_format(form, ("text", "format"))
    assert error.value.where == ("body", "text", "format")


def test_text_is_the_form_of_answers() -> None:
    check_response_format(None, ("response_format",))
    check_response_format({"type": "text"}, ("response_format",))
