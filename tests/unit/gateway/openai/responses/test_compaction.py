"""A conversation in one item."""

import base64
import os
import zlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.errors import RequestTooLarge
from turnwise.gateway.openai.responses.input import (
    MOST_COMPACTED_BYTES,
    CompactedInput,
    compact_items,
    compacted_input,
    expand_compactions,
)


@given(
    st.none() | st.text(max_size=20),
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), max_size=3),
)
def test_what_is_packed_comes_back(after: str | None, items: list[dict[str, Any]]) -> None:
    made = compact_items(after, items)
    assert (made.object, made.usage.total_tokens) == ("response.compaction", 0)
    (item,) = made.output
    assert compacted_input(item.model_dump()) == CompactedInput(after=after, items=items)


def test_it_can_be_compacted_again() -> None:
    (item,) = compact_items("resp_1", [{"role": "user", "content": "a"}]).output
    whole = expand_compactions([item.model_dump(), {"role": "user", "content": "b"}])
    assert whole == CompactedInput(after="resp_1", items=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])


def test_too_much_is_refused() -> None:
    with pytest.raises(RequestTooLarge):
        compact_items(None, [{"content": "x" * MOST_COMPACTED_BYTES}])


@pytest.mark.parametrize(
    "content",
    [
        None,
        7,
        "",
        "1.",
        "1.***",
        "2." + base64.b64encode(zlib.compress(b"{}")).decode(),
        "1." + base64.b64encode(b"not packed").decode(),
        "1." + base64.b64encode(zlib.compress(b'{"other": 1}')).decode(),
        "1." + base64.b64encode(zlib.compress(b'{"after": "' + b"x" * 10 * MOST_COMPACTED_BYTES + b'"}')).decode(),
        "1." + base64.b64encode(zlib.compress(os.urandom(100))).decode(),
    ],
)
def test_what_was_not_made_here_holds_nothing(content: Any) -> None:
    assert compacted_input({"type": "compaction", "encrypted_content": content}) is None
