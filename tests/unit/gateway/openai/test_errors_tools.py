"""What a request says of the caller's tools, as chat completions and responses have it alike."""

import pytest

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.errors import check_choice, unsupported_tool_error


def test_who_would_decide_in_the_agents_place() -> None:
    check_choice(tools=True, choice="auto", parallel=True)
    check_choice(tools=False, choice="none", parallel=False)
    for choice, parallel, where in (("required", None, "tool_choice"), (None, False, "parallel_tool_calls")):
        with pytest.raises(RequestInvalid) as refused:
            check_choice(tools=True, choice=choice, parallel=parallel)
        assert refused.value.where == ("body", where)


def test_the_type_of_a_tool_is_not_repeated_for_ever() -> None:
    assert len(unsupported_tool_error(("tools", 0, "type"), "x" * 9_999).problem) < 200
