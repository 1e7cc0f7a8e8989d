"""Tables that keep to a width."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from turnwise.cli.rendering import MIN_LAST_COLUMN, fit_table

COLUMNS = ("task", "needs", "objective")
ROWS: list[list[str | Text]] = [
    ["research", "", "Find what the archive says, word for word."],
    ["draft", "research", Text("Write it.", style="dim")],
    ["edit", "draft", ""],
]


def lines(width: int | None) -> list[str]:
    return [line.plain for line in fit_table(COLUMNS, ROWS, width)]


def test_without_a_width_it_is_a_table_as_any_other() -> None:
    whole = [
        "task      needs     objective",
        "research            Find what the archive says, word for word.",
        "draft     research  Write it.",
        "edit      draft",
    ]
    assert lines(None) == whole
    assert lines(len(whole[1])) == whole


def test_the_last_column_is_broken_beside_the_others() -> None:
    assert lines(48) == [
        "task      needs     objective",
        "research            Find what the archive says,",
        "                    word for word.",
        "draft     research  Write it.",
        "edit      draft",
    ]


def test_where_it_has_no_room_it_stands_below() -> None:
    assert lines(30) == [
        "task      needs",
        "   objective",
        "research",
        "   Find what the archive says,",
        "   word for word.",
        "draft     research",
        "   Write it.",
        "edit      draft",
    ]


def test_where_the_others_have_no_room_each_row_is_a_list() -> None:
    rows: list[list[str | Text]] = [["1", "a-name-that-is-long", "user", "It may do a lot of things here."], ["2", "b", "", ""]]
    found = [line.plain for line in fit_table(("", "name", "role", "scopes"), rows, 25)]
    assert found == [
        "name    1",
        "        a-name-that-is-long",
        "role    user",
        "scopes  It may do a lot",
        "        of things here.",
        "",
        "name    2 b",
    ]
    assert [line.plain for line in fit_table(("", "name", "role", "scopes"), rows[1:], 6)] == ["name", "   2 b"]


@pytest.mark.parametrize("width", [1, 3, 4, 20])
def test_no_width_is_too_narrow(width: int) -> None:
    assert "research" in "\n".join(lines(width))


@given(st.lists(st.text(alphabet="ab cd\u4e2d", max_size=60), min_size=1, max_size=4), st.integers(MIN_LAST_COLUMN + 6, 90))
def test_no_line_is_wider_and_no_word_is_lost(texts: list[str], width: int) -> None:
    found = [line.plain for line in fit_table(("no", "text"), [[str(n), text] for n, text in enumerate(texts)], width)]
    assert all(cell_len(line) <= width for line in found)
    letters = "".join("".join(line.split()) for line in found)
    assert letters == "notext" + "".join(f"{n}{''.join(text.split())}" for n, text in enumerate(texts))
