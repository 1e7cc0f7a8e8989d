"""What other libraries raise, as errors of ours; by what it looks like, as no library is there."""

from typing import Any

import pytest

from turnwise.agents.adapters.adapter import ERROR_CHARACTERS, error_text, model_error, too_many_steps
from turnwise.facts.errors import AgentFailed, ModelRefused, ModelUnavailable


class ByStatus(Exception):
    def __init__(self, **fields: Any) -> None:
        super().__init__("what ada said")
        self.__dict__.update(fields)


class Response:
    status_code = 503


class APITimeoutError(Exception):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ByStatus(status_code=429), ModelUnavailable),
        (ByStatus(code=500), ModelUnavailable),
        (ByStatus(response=Response()), ModelUnavailable),
        (ByStatus(status_code=404), ModelRefused),
        (ByStatus(code="rate_limit"), AgentFailed),
        (ByStatus(code=True), AgentFailed),
        (ByStatus(code=7), AgentFailed),
        (APITimeoutError(), ModelUnavailable),
        (ConnectionResetError(), ModelUnavailable),
        (TimeoutError(), ModelUnavailable),
        (ExceptionGroup("several", [ExceptionGroup("deeper", [ByStatus(status_code=529)])]), ModelUnavailable),
        (ValueError("a bug"), AgentFailed),
    ],
)
def test_it_goes_by_the_class_and_the_status(error: Exception, kind: type[Exception]) -> None:
    assert type(model_error("guide", error)) is kind


def test_what_a_service_says_stays_in_the_cause() -> None:
    said = str(model_error("guide", ByStatus(status_code=400)))
    assert said.startswith("Agent 'guide': a model refused the request: ByStatus, status 400.")
    assert "ada" not in said


def test_words_are_cut_and_can_be_stored() -> None:
    assert error_text(ValueError("x" * 1000)) == "x" * ERROR_CHARACTERS + "…"
    assert error_text(ValueError("\ud800")) == "\\ud800"
    assert error_text(Mute()) == "it cannot say what went wrong"
    assert str(model_error("guide", ValueError("a bug"))) == "Agent 'guide' raised ValueError: a bug"


def test_a_limit_names_where_it_is_set() -> None:
    limit = too_many_steps("guide", ValueError("10 turns"), "max_turns")
    assert limit.which == "steps"
    assert str(limit) == "Agent 'guide' did not come to an end: 10 turns Raise max_turns."
