"""What the gateway says went wrong, as errors."""

import json
from typing import Any

import httpx
import pytest

from turnwise.client.errors import Unreached, error_in, error_of, not_a_gateway, problem_in
from turnwise.facts import errors
from turnwise.facts.errors import (
    ConfigError,
    Forbidden,
    LimitReached,
    ModelUnavailable,
    NotAuthenticated,
    NothingHere,
    RequestError,
    RequestInvalid,
    RequestTooLarge,
    SessionError,
    TooMany,
    TransferRefused,
    TurnwiseError,
)
from turnwise.gateway.api.errors import error_response
from turnwise.gateway.problems import Problem

MORE_THAN_WORDS = (errors.MissingExtra, TransferRefused)
REQUEST = httpx.Request("GET", "http://gateway.test:8000/api/v1/x")


def below(kind: type[TurnwiseError]) -> list[type[TurnwiseError]]:
    return [kind, *(each for child in kind.__subclasses__() if child.__module__ == errors.__name__ for each in below(child))]


def response(status: int, **options: Any) -> httpx.Response:
    return httpx.Response(status, request=REQUEST, **options)


def told(status: int, problem: dict[str, Any], **headers: str) -> TurnwiseError:
    body, kind = json.dumps(problem), {"Content-Type": "application/problem+json"}
    error = problem_in(response(status, text=body, headers={**headers, **kind}))
    assert error is not None
    return error


@pytest.mark.parametrize("kind", below(TurnwiseError), ids=lambda kind: kind.code)
def test_every_error_comes_back_as_what_it_was(kind: type[TurnwiseError]) -> None:
    """All that the gateway writes: the same class, code and words as in the same process."""
    problem = Problem(409, kind.code, "It went wrong.", "Do better.", ("body", 0), "r-1", {})
    answer = error_response(problem)
    error = told(409, json.loads(bytes(answer.body)))
    assert (error.code, error.problem, error.fix) == (kind.code, "It went wrong.", "Do better.")
    # What needs more than words is raised before anything is served, or inside an agent: its branch is near enough.
    assert type(error) is (kind if kind not in MORE_THAN_WORDS else kind.__base__)
    assert error.__notes__ == ["The gateway's log has the cause under the request's id r-1."]


def test_what_belongs_to_a_kind() -> None:
    invalid = told(422, {"code": "request.invalid", "title": "No.", "where": ["body", "parts", 0, None]})
    assert isinstance(invalid, RequestInvalid)
    assert invalid.where == ("body", "parts", 0)
    many = told(429, {"code": "access.too_many", "title": "No."}, **{"Retry-After": "7"})
    assert isinstance(many, TooMany)
    assert many.retry_after == 7
    assert error_of({"code": "access.too_many"}).retry_after == 1  # type: ignore[attr-defined]
    model = told(503, {"code": "model.unavailable", "title": "No."}, **{"Retry-After": "3"})
    assert isinstance(model, ModelUnavailable)
    assert model.retry_after == 3
    closing = told(503, {"code": "request.closing"}, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert isinstance(closing, RequestError)
    assert getattr(closing, "retry_after", None) is None
    limit = told(429, {"code": "limit", "title": "No."})
    assert isinstance(limit, LimitReached)


def test_the_mistakes_of_a_definition() -> None:
    mistakes = [{"code": "config.pattern", "title": "No RE2.", "fix": "Correct it."}, {"code": "config.agent", "title": "No."}]
    invalid = told(422, {"code": "definition.invalid", "title": "No.", "mistakes": mistakes})
    assert isinstance(invalid, errors.DefinitionInvalid)
    assert [(type(each), each.problem) for each in invalid.problems] == [
        (errors.PatternError, "No RE2."),
        (errors.AgentDefinitionError, "No."),
    ]


def test_codes_that_only_a_newer_gateway_knows() -> None:
    """The nearest class that is known, and the code as it is."""
    frozen = told(409, {"code": "session.frozen.solid", "title": "It is frozen."})
    assert type(frozen) is SessionError
    assert frozen.code == "session.frozen.solid"
    assert SessionError.code == "session"
    defect = told(500, {"code": "internal", "title": "A defect.", "request_id": "r-9"})
    assert type(defect) is TurnwiseError
    assert defect.code == "internal"
    assert "r-9" in defect.__notes__[0]
    assert type(told(500, {})) is TurnwiseError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, NothingHere),
        (400, RequestInvalid),
        (401, NotAuthenticated),
        (403, Forbidden),
        (404, NothingHere),
        (405, NothingHere),
        (413, RequestTooLarge),
        (429, TooMany),
        (500, Unreached),
        (502, Unreached),
        (504, Unreached),
    ],
)
def test_what_stands_before_a_gateway_answers_in_its_own_way(status: int, kind: type[TurnwiseError]) -> None:
    headers = {"Location": "https://elsewhere.test"} if status == 301 else {}
    error = problem_in(response(status, html="<h1>No</h1>", headers=headers))
    assert type(error) is kind
    assert error.problem.startswith(f"http://gateway.test:8000 answers {status} ")
    assert error.fix


def test_how_long_a_proxy_asks_to_wait() -> None:
    gone = problem_in(response(503, headers={"Retry-After": "4"}))
    assert isinstance(gone, Unreached)
    assert (gone.retry_after, gone.quiet) == (4, False)
    late = problem_in(response(504))
    assert isinstance(late, Unreached)
    assert (late.retry_after, late.quiet) == (None, True)
    many = problem_in(response(429, headers={"Retry-After": "9"}))
    assert isinstance(many, TooMany)
    assert many.retry_after == 9


def test_a_problem_that_is_none() -> None:
    kind = {"Content-Type": "application/problem+json"}
    for body in ("no JSON", "[]", "1"):
        assert isinstance(problem_in(response(422, text=body, headers=kind)), RequestInvalid)
        assert isinstance(error_in(body), NothingHere)


def test_what_is_good_is_no_problem() -> None:
    assert problem_in(response(200, json={})) is None
    assert problem_in(response(204)) is None


def test_an_answer_of_something_else() -> None:
    error = not_a_gateway(response(200, html="<h1>Welcome</h1>"))
    assert isinstance(error, NothingHere)
    assert error.problem == "http://gateway.test:8000 answers with text/html, which is not a gateway's response."
    assert not issubclass(NothingHere, ConfigError)


def test_a_problem_in_a_stream_says_when_to_come_again() -> None:
    error = error_in('{"code": "request.closing", "title": "It leaves."}', 1.5)
    assert isinstance(error, errors.Closing)
    assert error.retry_after == 1.5  # type: ignore[attr-defined]
