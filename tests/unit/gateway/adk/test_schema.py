"""How what went wrong is written."""

import json
from typing import Any

from turnwise.gateway.adk.schema import error_response, stream_error
from turnwise.gateway.problems import Problem


def written(status: int, where: tuple[str | int, ...] = (), problem: str = "It is wrong.") -> tuple[int, Any]:
    answer = error_response(Problem(status, "a.code", problem, "Correct it.", where, "r-1", {"Retry-After": "3"}))
    assert (answer.headers["retry-after"], answer.headers["content-type"]) == ("3", "application/json")
    return answer.status_code, json.loads(bytes(answer.body))


def test_a_text_or_a_list_of_places() -> None:
    text = {"detail": "It is wrong. Correct it.", "code": "a.code"}
    assert written(404, ("appName",)) == (404, text)
    assert written(422) == (422, text)
    listed = [{"type": "a.code", "loc": ["body", "parts", 1], "msg": "It is wrong. Correct it."}]
    assert written(422, ("body", "parts", 1)) == (422, {"detail": listed, "code": "a.code"})


def test_half_a_letter_is_written() -> None:
    assert written(422, ("body", "\ud800"), "\ud800")[1]["detail"][0]["loc"] == ["body", "\ud800"]


def test_in_a_stream() -> None:
    assert json.loads(stream_error("a.code", "It is\nwrong.", 1.5)) == {
        "error": "a.code: It is\nwrong.",
        "error_details": {"error_type": "a.code", "error_message": "It is\nwrong.", "timestamp": 1.5},
    }
    assert b"\n" not in stream_error("a.code", "It is\nwrong.", 1.5)
