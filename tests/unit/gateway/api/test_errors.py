"""Problems as RFC 9457 has them."""

import json
from collections.abc import Mapping
from typing import Any

from turnwise.facts.errors import NoSuchRange
from turnwise.gateway.api.errors import error_response, problems
from turnwise.gateway.problems import Problem, headers_of


def written(problem: Problem) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(bytes(error_response(problem).body))
    return read


def problem(*where: str | int, headers: Mapping[str, str] | None = None) -> Problem:
    return Problem(422, "request.invalid", "Wrong.", "Mend it.", where, "r-1", headers or {})


def test_a_problem_says_what_where_and_what_to_do() -> None:
    assert written(problem("body", "id", 0)) == {
        "type": "urn:turnwise:error:request.invalid",
        "title": "Wrong.",
        "status": 422,
        "code": "request.invalid",
        "fix": "Mend it.",
        "where": ["body", "id", 0],
        "request_id": "r-1",
    }


def test_a_place_that_utf8_cannot_write_is_told_all_the_same() -> None:
    assert written(problem("body", "\ud800"))["where"] == ["body", "\ud800"]


def test_its_headers_go_with_it() -> None:
    answer = error_response(problem(headers=headers_of(NoSuchRange("No.", size=5))))
    assert answer.headers["content-range"] == "bytes */5"
    assert answer.headers["content-type"] == "application/problem+json"


def test_every_route_may_be_refused_and_those_with_a_body_for_that_too() -> None:
    assert set(problems()) == {400, 401, 403, 422, 429, 500, 503}
    assert set(problems(404, body=True)) - set(problems()) == {404, 408, 413, 507}
