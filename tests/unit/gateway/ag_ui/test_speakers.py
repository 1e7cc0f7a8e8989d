"""Who has the floor."""

from datetime import UTC, datetime
from typing import Any

from turnwise.facts.events import Actions, Branch, Event
from turnwise.gateway.ag_ui.stream import TurnSteps

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def said(author: str, branch: str, **actions: Any) -> Event:
    return Event(id="e", author=author, invocation_id="i", created_at=NOW, branch=Branch(branch), actions=Actions(**actions))


def speakers() -> TurnSteps:
    return TurnSteps({"a": "The first."}.get)


def test_each_is_announced_once_below_whoever_is_above() -> None:
    floor = speakers()
    told = [*floor.announce(said("a", "1")), *floor.announce(said("b", "1/x/~b")), *floor.announce(said("a", "1"))]
    assert [
        (wire["subagentRunId"], wire["name"], wire.get("description"), wire.get("parentSubagentRunId")) for wire in told
    ] == [
        ("i:1", "a", "The first.", None),
        ("i:1/x/~b", "b", None, "i:1"),
    ]


def test_nobody_is_announced_for_what_stands_nowhere() -> None:
    floor = speakers()
    assert floor.tag(said("a", "")) is None
    assert [*floor.announce(said("a", ""))] == []


def test_who_is_done_is_closed_the_innermost_first() -> None:
    floor = speakers()
    list(floor.begin("a"))
    for branch in ("1", "1/~b", "1/~c"):
        list(floor.announce(said("a", branch)))
    done = floor.finished(said("a", "1", finished=("1/~b", "1/~nobody")))
    assert [wire["subagentRunId"] for wire in done] == ["i:1/~b"]
    closed = list(floor.close({"i:1": ["w"]}))
    assert [wire.get("subagentRunId") or wire["stepName"] for wire in closed] == ["i:1/~c", "i:1", "a"]
    assert closed[1]["outcome"] == {"type": "suspended", "interruptIds": ["w"]}
    assert "outcome" not in closed[0]
    assert not floor.is_open("i:1")
    # An id is of one invocation: it is not begun a second time.
    assert [*floor.announce(said("a", "1"))] == []


def test_a_step_is_a_turn() -> None:
    floor = speakers()
    told = [*floor.begin("a"), *floor.begin("a"), *floor.hand_over("a"), *floor.close({})]
    assert [(wire["type"], wire["stepName"]) for wire in told] == [
        ("STEP_STARTED", "a"),
        ("STEP_FINISHED", "a"),
        ("STEP_STARTED", "a"),
        ("STEP_FINISHED", "a"),
    ]
