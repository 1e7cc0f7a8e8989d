import base64

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.errors import CursorInvalid, StoreError
from turnwise.stores.sql.ids import check_limit, cursor, read_cursor

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(TEXTS, TEXTS, st.integers(-(2**63), 2**63 - 1))
def test_what_went_in_comes_out(one: str, two: str, number: int) -> None:
    """A29"""
    assert read_cursor("k", cursor("k", one, two, number), str, str, int) == (one, two, number)


@given(st.text())
def test_any_other_text_is_an_error(text: str) -> None:
    """A29"""
    with pytest.raises(StoreError, match="is not a cursor of this list"):
        read_cursor("k", text, str)


@pytest.mark.parametrize(
    "wrong",
    [cursor("other", "a"), cursor("k"), cursor("k", 1), cursor("k", "a", "b"), cursor("k", "a") + "A", cursor("k", 2**63)],
)
def test_another_cursor_is_an_error(wrong: str) -> None:
    """A29"""
    with pytest.raises(StoreError):
        read_cursor("k", wrong, str)
    with pytest.raises(StoreError):
        read_cursor("k", cursor("k", 2**63), int)


@pytest.mark.parametrize("name", [r"a\u0000", r"\ud800"])
def test_what_no_database_takes_is_an_error(name: str) -> None:
    """Whoever makes one up himself is told so, whatever the database."""
    made_up = base64.urlsafe_b64encode(f'["k","{name}"]'.encode()).decode().rstrip("=")
    with pytest.raises(CursorInvalid):
        read_cursor("k", made_up, str)


def test_a_long_one_is_shown_in_part() -> None:
    with pytest.raises(StoreError) as caught:
        read_cursor("k", "x" * 1000, str)
    assert len(str(caught.value)) < 300


def test_limits() -> None:
    check_limit(1)
    with pytest.raises(ValueError, match="limit is 0"):
        check_limit(0)
