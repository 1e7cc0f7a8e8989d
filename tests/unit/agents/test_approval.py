from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.agents.approval import Answer, answer_of, question_text, refusal
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


def test_a_question_is_readable_and_whole() -> None:
    """A42: a person sees all that they agree to, and how much they do not."""
    assert question_text("stop", {}) == "May I call stop?"
    assert question_text("pay", {"amount": 3.5, "to": "Zoë"}) == 'May I call pay with amount = 3.5, to = "Zoë"?'
    assert question_text("write", {"text": "x" * 4_000}) == f'May I call write with text = "{"x" * 4_000}"?'
    cut = question_text("write", {"text": "x" * 5_234, "to": "ada"})
    assert cut == f'May I call write with text = "{"x" * 4_000}" … 1,234 characters more, to = "ada"?'
    assert " characters more?" in question_text("write", {"lines": ["x" * 3_000, "y" * 3_000]})


def test_nothing_that_a_model_wrote_passes_for_the_question() -> None:
    """A42: names as well; what is not seen, breaks lines or turns their direction is escaped."""
    asked = question_text("pay", {"to = 1?\nMay I": 2, "a\u202eb": 'x\u200b\u2028\x1b[0m"?', "deep": {"k\n": ["\U000e0041"]}})
    assert asked == (
        r'May I call pay with "to = 1?\nMay I" = 2, "a\u202eb" = "x\u200b\u2028\u001b[0m\"?", deep = {"k\n": ["\udb40\udc41"]}?'
    )
    assert question_text("x" * 300, {"n" * 300: 1}).count('" … 100 characters more') == 2


@given(st.text(max_size=30), st.dictionaries(st.text(max_size=30), st.recursive(st.text(), st.lists)))
def test_every_question_is_one_line_that_can_be_read(tool: str, arguments: Any) -> None:
    assert question_text(tool, arguments).isprintable()
