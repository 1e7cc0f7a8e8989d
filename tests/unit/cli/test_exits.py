"""Exit codes."""

import pytest

from turnwise.cli.exits import LEGEND, UsageProblem, exit_code
from turnwise.facts.errors import (
    ConfigError,
    EmptyMessage,
    SessionMissing,
    StoreFull,
    StoreUnavailable,
    TreeCycle,
    TurnwiseError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (TreeCycle("x"), 2),
        (UsageProblem("x"), 2),
        (StoreUnavailable("x"), 3),
        (StoreFull("x"), 3),
        (SessionMissing("x"), 1),
        (EmptyMessage("x"), 1),
        (TurnwiseError("x"), 1),
    ],
)
def test_an_error_gives_its_code(error: TurnwiseError, code: int) -> None:
    assert exit_code(error) == code


def test_the_codes_are_documented() -> None:
    assert [code for code in ("0", "1", "2", "3", "130") if code not in LEGEND] == []
