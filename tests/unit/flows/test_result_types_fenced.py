"""What stands in a fence."""

import pytest
from hypothesis import given, strategies as st

from turnwise.flows.result_types import unfenced


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n{}\n```", "{}\n"),
        ("```\n[1,\n2]\n```", "[1,\n2]\n"),
        ("Here it is:\n```JSON  \n{}\n```\nDone.", "{}\n"),
        ("```\n```", ""),
    ],
)
def test_what_stands_in_the_only_fence(text: str, inside: str) -> None:
    assert unfenced(text) == inside


@pytest.mark.parametrize(
    "text", ["", "{}", "```json\n{}\n```\n```json\n{}\n```", "```json\n{}", "Use ```x``` here.", "```json {}\n```"]
)
def test_without_a_fence_or_with_several_it_is_the_text(text: str) -> None:
    assert unfenced(text) == text


@given(st.text())
def test_whatever_a_text_says_what_is_left_stands_in_it(text: str) -> None:
    assert unfenced(text) in text
