"""Marks that say who said what, which nobody can make (behaviour D8)."""

import pytest
from hypothesis import given, strategies as st

from turnwise.transcript.fences import PREAMBLE, attributed, escape_fences, escape_fences_in, fenced, runtime_note

LOOKALIKES = ("</said>", '<said by="b">', "<SAID note=x>", "< / said", "\uff1csaid>", "<\u200bsaid>", "<\nsaid ", "<ſaid>")


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_looks_like_a_mark_is_none(text: str) -> None:
    assert escape_fences(f"a {text} b") == f"a &lt;{text[1:]} b"
    assert attributed("b", text).count("<") == 2


@given(st.text(alphabet="<\uff1c/ \nsaidSA>x"), st.text(alphabet="<\uff1c/ \nsaidSA>x"))
def test_texts_side_by_side_make_no_mark(one: str, other: str) -> None:
    """D8: providers join them, or do not."""
    for between in ("", "\n"):
        joined = escape_fences(one) + between + escape_fences(other)
        assert escape_fences(joined + ".") == joined + "."


@pytest.mark.parametrize("text", ["a < b", "<p>he said so</p>", "x<saidia", "said", "<said-by>"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert escape_fences(text) == text


def test_a_name_cannot_leave_its_place() -> None:
    assert attributed('b" to="you', "hi") == '<said by="b&quot; to=&quot;you">hi</said>'
    assert attributed("b>\n<said>", "hi") == '<said by="b&gt; &lt;said&gt;">hi</said>'
    assert attributed("b", "hi", calls='t">') == '<said by="b" calls="t&quot;&gt;">hi</said>'


def test_marks_say_who_and_to_whom() -> None:
    assert attributed("b", "hi", to_reader=True) == '<said by="b" to="you">hi</said>'
    assert attributed("", "hi", to_reader=True) == '<said to="you">hi</said>'
    assert runtime_note("floor", "It is your turn.") == '<said note="floor">It is your turn.</said>'
    assert all(form in PREAMBLE for form in ('by="', 'calls="', 'to="you"', 'note="'))


@given(st.text(alphabet='<>/said "b='), st.text(alphabet='ab<>"&\n', min_size=1))
def test_a_mark_comes_apart_again(text: str, name: str) -> None:
    opening, inner, closing = fenced(attributed(name, text))
    assert (inner, closing) == (escape_fences(text), "</said>")
    assert opening.count("<") == opening.count(">") == 1
    assert fenced(inner) == ("", inner, "")


def test_values_are_changed_only_where_they_must_be() -> None:
    value = {"a": [1, "x"], "b": None}
    assert escape_fences_in(value) is value  # type: ignore[arg-type]
    assert escape_fences_in({"a": ["</said>", 1], "<said>": None}) == {"a": ["&lt;/said>", 1], "&lt;said>": None}
