"""Events, as they are written."""

import json

from turnwise.gateway.ag_ui.schema import error_response, event, sse_event
from turnwise.gateway.problems import Problem


def read(line: bytes) -> object:
    return json.loads(line.decode().removeprefix("data: "))


def test_what_has_no_value_is_left_out() -> None:
    assert event("X", a=None, b=0, c="") == {"type": "X", "b": 0, "c": ""}


def test_whatever_comes_back_can_be_written() -> None:
    assert read(sse_event({"a": "é\n", "b": [1.5]})) == {"a": "é\n", "b": [1.5]}
    assert read(sse_event({"a": "\ud800"})) == {"a": "\ud800"}
    assert read(sse_event({"a": float("nan")})) == {"a": None}
    assert sse_event({"a": "x\r\ny"}).count(b"\n") == 2


def test_a_refusal_is_the_error_of_a_run() -> None:
    answer = error_response(Problem(429, "access.too_many", "Too many.", "Come \ud800.", (), "id", {"Retry-After": "3"}))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert json.loads(bytes(answer.body))["code"] == "access.too_many"
