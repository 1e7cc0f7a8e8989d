import pytest

from turnwise.runner.turn.run_agent import stop_reason


@pytest.mark.parametrize(
    ("holders", "target", "reason"),
    [
        (["A"], "B", None),
        (["A", "B"], "A", None),
        (["A", "B", "A"], "B", "loop"),
        (["C", "A", "B", "A"], "B", "loop"),
        (["A", "B", "C"], "A", None),
        (["A", "B", "C", "A", "B"], "C", None),
        (["A", "A", "A"], "A", None),
    ],
)
def test_two_agents_that_hand_the_floor_to_each_other_twice_are_a_loop(
    holders: list[str], target: str, reason: str | None
) -> None:
    """A38."""
    assert stop_reason(holders, target, limit=8) == reason


def test_hand_overs_are_limited() -> None:
    """A38: at most `limit` transfers a message."""
    path = ["a", "b", "c", "d"]
    assert stop_reason(path[:3], "x", limit=3) is None
    assert stop_reason(path, "x", limit=3) == "limit:transfers"
    assert stop_reason(["a"], "b", limit=0) == "limit:transfers"
