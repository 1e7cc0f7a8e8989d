"""The state that is shared with a front end."""

from typing import Any

import pytest

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.schema import ClientStateMirror, changed_keys


def test_what_the_front_end_wrote() -> None:
    assert changed_keys({"a": 1, "b": 2, "c": None, "d": None}, {"a": 1, "b": 3, "c": 4, "e": 5}) == {"b": 2, "c": None}
    assert changed_keys(None, {"a": 1}) == {}


@pytest.mark.parametrize("state", [[], "x", 1, True])
def test_a_state_has_keys(state: Any) -> None:
    with pytest.raises(RequestInvalid):
        changed_keys(state, {})


def test_only_what_changes_is_told() -> None:
    mirror = ClientStateMirror({"a": 1, "b": [1]})
    assert list(mirror.apply({"a": 1, "gone": None})) == []
    (wire,) = mirror.apply({"a": None, "b": [2], "c~/": 0}, "s")
    assert wire["subagentRunId"] == "s"
    assert wire["delta"] == [
        {"op": "remove", "path": "/a"},
        {"op": "add", "path": "/b", "value": [2]},
        {"op": "add", "path": "/c~0~1", "value": 0},
    ]
    assert list(mirror.replace({"b": [2], "c~/": 0})) == []
    assert [wire["snapshot"] for wire in mirror.replace({})] == [{}]


def test_true_is_not_one() -> None:
    """Python finds them equal, JSON does not."""
    shown: Any = {"a": 1, "b": {"c": [0]}, "d": 1.0}
    assert changed_keys({"a": True, "b": {"c": [False]}, "d": 1}, shown) == {"a": True, "b": {"c": [False]}}
    mirror = ClientStateMirror(shown)
    (wire,) = mirror.apply({"a": True, "b": {"c": [False]}})
    assert [each["path"] for each in wire["delta"]] == ["/a", "/b"]
    assert list(mirror.replace({"a": 1, "b": {"c": [False]}, "d": 1})) != []
