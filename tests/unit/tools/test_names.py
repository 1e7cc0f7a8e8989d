import re

import pytest
from hypothesis import given, strategies as st

from turnwise.tools.names import is_tool_name, tool_name

_ANY = st.text(max_size=80)


@pytest.mark.parametrize("name", ["find_order", "Billing", "a", "_x", "a-b", "x" * 64])
def test_what_every_provider_takes_stays(name: str) -> None:
    assert tool_name(name) == name


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("Größe A", "Grosse_A_"),
        ("admin.tools/list", "admin_tools_list_"),
        ("24h", "_24h_"),
        ("", "_"),
        ("数", "_"),
        ("x" * 65, "x" * 53),
    ],
)
def test_anything_else_is_spelled_plainly(name: str, begins: str) -> None:
    assert re.fullmatch(re.escape(begins) + "_?[0-9a-f]{10}", tool_name(name))


def test_names_that_look_alike_never_share_one() -> None:
    """A16."""
    names = ["Größe A", "Groesse-A", "Grösse A", "Große A", "Grosse A", "Grosse_A", tool_name("Größe A"), "Größe  A"]
    assert len({tool_name(name, "ask_") for name in names} | {tool_name(name) for name in names}) == 2 * len(names)


@given(st.lists(_ANY, unique=True, max_size=20), st.sampled_from(["", "ask_", "a b "]))
def test_any_names_become_as_many_tool_names(names: list[str], prefix: str) -> None:
    """A16."""
    made = [tool_name(name, prefix) for name in names]
    assert len(set(made)) == len(names)
    assert all(map(is_tool_name, made))
    assert made == [tool_name(name, prefix) for name in names]
