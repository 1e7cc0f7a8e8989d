"""What is nested too deeply to be read again."""

from typing import Any

import pytest

from turnwise.facts.content import DEEPEST, is_deep


def nested(depth: int, in_a: type = list) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if in_a is dict else (value,) if in_a is tuple else [value]
    return value


@pytest.mark.parametrize("in_a", [list, dict, tuple])
def test_depth_is_counted(in_a: type) -> None:
    assert not is_deep(nested(3, in_a), 3)
    assert is_deep(nested(4, in_a), 3)


def test_what_is_wide_is_not_deep() -> None:
    assert not is_deep([[1, 2], {"a": [1]}, "text"] * 1_000, 3)
    assert not is_deep("text", 0)


def test_no_depth_is_too_much_to_be_counted() -> None:
    assert is_deep(nested(50_000))
    assert not is_deep(nested(DEEPEST))
