"""How what went wrong is written."""

import json

import pytest

from turnwise.gateway.mcp.errors import error_of, error_response, tool_error
from turnwise.gateway.problems import Problem

PROBLEM = Problem(429, "access.too_many", "Too many.", "Wait.", (), "r", {"Retry-After": "7"})
ABOUT = {"code": "access.too_many", "problem": "Too many.", "fix": "Wait.", "retry_after": 7, "request_id": "r"}


def test_over_http_it_is_an_error_without_an_id() -> None:
    answer = error_response(PROBLEM)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert json.loads(bytes(answer.body)) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32000, "message": "Too many. Wait.", "data": ABOUT},
    }


def test_as_a_tools_result_it_is_words_for_models_and_values_for_programs() -> None:
    result = tool_error(PROBLEM).model_dump(by_alias=True, exclude_none=True)
    assert result["isError"] is True
    assert [each["text"] for each in result["content"]] == ["Too many. Wait."]
    assert result["_meta"] == {"turnwise/error": ABOUT}
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, -32600), (401, -32000), (404, -32602), (405, -32601), (422, -32602), (500, -32603), (503, -32000)],
)
def test_codes_of_the_protocol(status: int, code: int) -> None:
    problem = Problem(status, "x", "P.", "", ("body", 1), "", {})
    error = error_of(problem)
    assert (error.code, error.message) == (code, "P.")
    assert error.data == {"code": "x", "problem": "P.", "fix": "", "where": ["body", 1]}
    assert error_of(problem, -1, uri="u").error.model_dump() == {
        "code": -1,
        "message": "P.",
        "data": {**error.data, "uri": "u"},
    }
