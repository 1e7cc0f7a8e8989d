from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.confirming import Answer, answer_of, refusal, worded
from turnwise.facts.content import ToolResultPart


def answer(result: Any, *, failed: bool = False) -> Answer:
    return answer_of(ToolResultPart(call_id="c", result=result, failed=failed))


@pytest.mark.parametrize("result", [True, "yes", "YES!", " ok. ", "approved", {"approved": True}, {"approved": "true"}])
def test_a_plain_yes_is_leave(result: Any) -> None:
    """A42."""
    assert answer(result) == Answer(True)
    assert not answer(result, failed=True).approved


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (False, ""),
        ("no", ""),
        ("", ""),
        (None, ""),
        (1, ""),
        ({"approved": False, "reason": "too much"}, "too much"),
        ({"approved": 1}, ""),
        ({"yes": True}, ""),
        ("yes, but only half of it", "yes, but only half of it"),
        ([True], ""),
    ],
)
def test_everything_else_is_none(result: Any, reason: str) -> None:
    assert answer(result) == Answer(False, reason)


@given(st.recursive(st.none() | st.booleans() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_no_answer_breaks_it(result: Any) -> None:
    assert isinstance(refusal(answer(result)), str)


def test_a_question_is_readable_and_bounded() -> None:
    assert worded("stop", {}) == "May I call stop?"
    assert worded("pay", {"amount": 3.5, "to": "Zoë"}) == 'May I call pay with amount = 3.5, to = "Zoë"?'
    assert worded("write", {"text": "x" * 1_000}) == f'May I call write with text = "{"x" * 199}…?'
