import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.agents.llm.tool_calls import shortened

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON, st.integers(1, 60))
def test_what_is_short_enough_stays_and_what_is_not_is_cut_with_a_mark(value: Any, characters: int) -> None:
    told = shortened(value, characters)
    length = len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False))
    if length <= characters:
        assert told == value
    else:
        assert isinstance(told, str)
        assert told[characters:] == f"… [cut: this is the beginning of {length:,} characters]"


def test_half_a_character_does_not_reach_the_log() -> None:
    assert shortened({"a\ud800": ["\udfff"]}, 100) == {"a?": ["?"]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        shortened(value, 100)
