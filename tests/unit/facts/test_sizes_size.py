"""A huge value is not read to its end (J1)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import least_bytes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
)


@given(VALUES)
def test_it_never_counts_more_than_the_json_has(value: Any) -> None:
    """So a value that is refused by it is too large."""
    assert least_bytes(value, 10**9) <= len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")) + 1


class Counted(list[object]):
    """Counts how many of its values are read."""

    read = 0

    def __iter__(self) -> Iterator[object]:
        for value in super().__iter__():
            self.read += 1
            yield value


@pytest.mark.parametrize(("value", "most"), [("x" * 100, 12), (1, 510), ([], 510), ({"k": 1}, 260)])
def test_it_reads_no_further_than_the_limit(value: object, most: int) -> None:
    values = Counted([value] * 100_000)
    assert least_bytes(values, 1_000) > 1_000
    assert values.read <= most


def test_a_value_that_holds_itself_comes_to_an_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert least_bytes(loop, 1_000) > 1_000
