"""Cards: names, and what a card refuses."""

import unicodedata
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from turnwise.facts.tree import AgentCard, Kind, Pattern, check_name


@pytest.mark.parametrize(
    "name", ["a", "returns", "Order Tracking", "bestellung-ändern", "注文", "x" * 64, "🙂", "a/b", "user2", "~x", ">y", "a.b:c"]
)
def test_names_that_are_allowed(name: str) -> None:
    """A16: 1 to 64 printable characters, not only Python identifiers."""
    assert AgentCard(name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 65,
        " a",
        "a ",
        "\ta",
        "a\nb",
        "a\x00b",
        "a\u2028b",
        "a\u2029b",
        "a\x85b",
        "a\u200bb",
        "\ud800",
        "user",
        "User",
        "\u00a0a",
    ],
)
def test_names_that_are_refused(name: str) -> None:
    """A16: no outer or line-breaking space, nothing that cannot be seen, and not `user`."""
    with pytest.raises(ValidationError):
        AgentCard(name=name)


@given(st.text(max_size=70))
@settings(max_examples=100)
def test_a_name_is_refused_with_a_reason_or_given_back(name: str) -> None:
    """A16"""
    seen = all(c.isprintable() or unicodedata.category(c) == "Zs" for c in name)
    allowed = 1 <= len(name) <= 64 and name == name.strip() and len(name.splitlines()) == 1 and seen
    if name.casefold() == "user" or not allowed:
        with pytest.raises(ValueError, match=r"\.$"):
            check_name(name)
    else:
        assert check_name(name) == name


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_patterns_confidence_is_0_to_1(confidence: float) -> None:
    with pytest.raises(ValidationError):
        Pattern(regex="x", confidence=confidence)


@pytest.mark.parametrize("fields", [{"kind": "wizard"}, {"resume": "maybe"}, {"time_limit": 0.0}, {"colour": "red"}])
def test_a_card_refuses_what_it_does_not_know(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentCard(name="a", **fields)


def test_composites_are_known_by_their_kind() -> None:
    plain = [kind for kind in get_args(Kind) if not AgentCard(name="a", kind=kind).is_composite]
    assert plain == ["function", "llm", "remote"]
