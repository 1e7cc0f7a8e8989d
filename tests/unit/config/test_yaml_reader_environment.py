"""References to environment variables."""

import pytest

from turnwise.config.document import expand_variables

VARIABLES = {"HOST": "db", "EMPTY": "", "PASS": "p${HOST}"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("${HOST}", "db"),
        ("pg://${HOST}/${HOST}", "pg://db/db"),
        ("${NONE:-here}", "here"),
        ("${NONE:-}", ""),
        ("${HOST:-else}", "db"),
        ("${EMPTY:-else}", "else"),
        ("${EMPTY}", ""),
        ("$${HOST}", "${HOST}"),
        ("$HOST and $5", "$HOST and $5"),
    ],
)
def test_references_are_replaced(text: str, filled: str) -> None:
    assert expand_variables(text, VARIABLES) == (filled, (), ())


def test_what_a_variable_holds_is_not_read_again() -> None:
    assert expand_variables("${PASS}", VARIABLES).text == "p${HOST}"


def test_missing_and_malformed_references_are_named() -> None:
    filled = expand_variables("${NOPE} ${ALSO} ${9x} ${a b} ${open", VARIABLES)
    assert filled.missing == ("NOPE", "ALSO")
    assert filled.malformed == ("${9x}", "${a b}", "${open")
