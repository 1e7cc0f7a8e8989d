import pytest
from hypothesis import example, given, strategies as st

from turnwise.tools.function import parse_docstring


def google() -> None:
    """Finds orders.

    Also old ones.

    Args:
        customer: Who bought,
            or will: a name.
        limit (int, optional): How many.

    Returns:
        The orders.

    Raises:
        KeyError: When there is none.
    """


def numpy() -> None:
    """Finds orders.

    Also old ones.

    Parameters
    ----------
    customer : str
        Who bought,
        or will: a name.
    limit : int, optional
        How many.

    Returns
    -------
    list
        The orders.
    """


def sphinx() -> None:
    """Finds orders.

    Also old ones.

    :param customer: Who bought,
        or will: a name.
    :param int limit: How many.
    :returns: The orders.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_every_style_says_the_same(function: object) -> None:
    found = parse_docstring(function)  # type: ignore[arg-type]
    assert found.parameters == {"customer": "Who bought, or will: a name.", "limit": "How many."}
    assert found.text == "Finds orders.\n\nAlso old ones.\n\nReturns: The orders."


def plain() -> None:
    """Finds orders: all of them.

    Note: slow."""


def nothing() -> None: ...


def broken() -> None:
    """Finds.

    :param
    """


def test_what_has_no_style_is_all_text() -> None:
    assert parse_docstring(plain) == ("Finds orders: all of them.\n\nNote: slow.", {})
    assert parse_docstring(nothing) == ("", {})
    assert "Finds" in parse_docstring(broken).text


@example(": : what is it")
@given(st.text(alphabet=":- \nabArgsPm*(),", max_size=200))
def test_any_docstring_is_read(text: str) -> None:
    def function() -> None: ...

    function.__doc__ = text
    parse_docstring(function)
