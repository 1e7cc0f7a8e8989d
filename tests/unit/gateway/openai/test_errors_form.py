"""Every error of ours in OpenAI's form."""

import json

import pytest

from turnwise.facts import errors
from turnwise.gateway.openai.errors import error_of, error_response, param_of
from turnwise.gateway.problems import STATUS, Problem, headers_of, status_of


def problem(code: str, *where: str | int, status: int | None = None) -> Problem:
    return Problem(status or status_of(code), code, "It went wrong.", "Mend it.", where, "r-1", {})


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_code_has_the_four_fields(code: str) -> None:
    answer = error_response(problem(code))
    error = json.loads(bytes(answer.body))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] == "It went wrong. Mend it."
    assert answer.status_code == STATUS[code]
    assert (error["type"] == "server_error") is (STATUS[code] >= 500)


@pytest.mark.parametrize(
    ("code", "type_", "named"),
    [
        ("access.unauthenticated", "authentication_error", "invalid_api_key"),
        ("access.forbidden", "permission_error", "access.forbidden"),
        ("access.too_many", "rate_limit_error", "rate_limit_exceeded"),
        ("session.missing", "not_found_error", "session.missing"),
        ("message.blocked", "invalid_request_error", "content_filter"),
        ("message.too_large", "invalid_request_error", "message.too_large"),
        ("request.closing", "server_error", "request.closing"),
    ],
)
def test_codes_and_types(code: str, type_: str, named: str) -> None:
    error = error_of(problem(code))
    assert (error.type, error.code) == (type_, named)


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (("model",), "model_not_found"),
        (("body", "previous_response_id"), "previous_response_not_found"),
        ((), "request.nothing_here"),
    ],
)
def test_what_is_missing_is_named_by_its_parameter(where: tuple[str, ...], code: str) -> None:
    assert error_of(problem("request.nothing_here", *where)).code == code
    assert error_of(problem("request.invalid", *where)).code == "request.invalid"


@pytest.mark.parametrize(
    ("where", "param"),
    [
        ((), None),
        (("body",), None),
        (("body", "n"), "n"),
        (("messages", 0, "content", 2, "text"), "messages[0].content[2].text"),
        (("query", "user"), "user"),
        ((3,), "[3]"),
    ],
)
def test_places(where: tuple[str | int, ...], param: str | None) -> None:
    assert param_of(where) == param


def test_clients_try_again_only_where_that_helps() -> None:
    busy = errors.TooMany("Too much.", retry_after=3)
    again = error_response(problem(busy.code)._replace(headers=headers_of(busy)))
    assert (again.headers["retry-after"], again.headers["x-should-retry"]) == ("3", "true")
    assert error_response(problem("message.unknown_tool_call")).headers["x-should-retry"] == "false"
