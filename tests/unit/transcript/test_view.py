"""The estimate of tokens, and the view of a reader."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import ArtifactPart, BlobPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Branch
from turnwise.transcript.view import (
    CALL_TOKENS,
    FILE_TOKENS,
    PART_TOKENS,
    View,
    as_text,
    tokens_of,
    tokens_of_part,
    tokens_of_parts,
)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abc", 1), ("abcd", 2), ("д" * 9, 9), ("語" * 3, 5), ("😀" * 3, 7)])
def test_texts_are_counted_by_characters_and_bytes(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


@given(st.text(), st.text())
def test_a_longer_text_never_takes_less(one: str, two: str) -> None:
    assert max(tokens_of(one), tokens_of(two)) <= tokens_of(one + two) <= tokens_of(one) + tokens_of(two)


def test_a_text_that_cannot_be_written_is_counted_too() -> None:
    assert tokens_of("\ud800") == 2
    assert as_text(["\ud800"]) == '["\\ud800"]'


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (TextPart(text="abc"), PART_TOKENS + 1),
        (ThinkingPart(text="abc"), PART_TOKENS + 1),
        (ToolCallPart(call_id="k", tool="abc", arguments={"a": 1}), PART_TOKENS + CALL_TOKENS + 1 + 3),
        (ToolCallPart(call_id="k", tool="abc", raw="abc"), PART_TOKENS + CALL_TOKENS + 1 + 1),
        (ToolResultPart(call_id="k", tool="abc", result="abc"), PART_TOKENS + CALL_TOKENS + 1 + 1),
        (BlobPart(data=b"x" * 10_000, mime_type="image/png"), PART_TOKENS + FILE_TOKENS),
        (ArtifactPart(name="f"), PART_TOKENS),
    ],
)
def test_every_kind_of_part_has_its_size(part: TextPart, tokens: int) -> None:
    assert tokens_of_part(part) == tokens
    assert tokens_of_parts([part, part]) == 2 * tokens


def test_a_branch_may_be_given_as_text() -> None:
    """As it stands in an event's JSON, for callers of the public face."""
    text: Any = "1/~left"
    view = View("a", text, "i-1")
    assert view == View("a", Branch("1/~left"), "i-1")
    assert view.branch.is_in_parallel
