"""Intervals of paired differences (behaviour H3)."""

import numpy as np

from turnwise.learning.draft_gain import paired_difference


def test_one_message_proves_nothing() -> None:
    for was, is_ in ((True, False), (False, True)):
        found = paired_difference([was], [is_], ["s"])
        assert found.low < 0 < found.high


def test_a_clear_gain_is_a_gain_and_no_change_is_none() -> None:
    count = 200
    groups = [f"s{number}" for number in range(count)]
    found = paired_difference([False] * count, [number % 4 == 0 for number in range(count)], groups)
    assert found.mean == 0.25
    assert 0.15 < found.low < 0.25 < found.high < 0.35
    same = paired_difference([True] * count, [True] * count, groups)
    assert same.mean == 0.0
    assert same.low <= 0 <= same.high
    assert paired_difference([], [], []).decisions == 0


def test_the_interval_holds_the_mean() -> None:
    """Also where all messages change alike."""
    for before, after, mean in ((False, True, 1.0), (True, False, -1.0)):
        found = paired_difference([before] * 8, [after] * 8, [f"s{number}" for number in range(8)])
        assert found.low <= found.mean == mean <= found.high
        assert found.low > 0.4 or found.high < -0.4


def test_messages_of_one_session_count_as_one() -> None:
    before, after = [False] * 100, [True] * 20 + [False] * 80
    alone = paired_difference(before, after, [f"s{number}" for number in range(100)])
    together = paired_difference(before, after, [f"s{number // 20}" for number in range(100)])
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Drawn from sessions of different lengths, the true change lies inside in about nine of ten cases."""
    chance, inside = np.random.default_rng(0), 0
    for trial in range(200):
        before, after, groups = [], [], []
        for session in range(40):
            better = chance.random() < 0.3
            for _ in range(int(chance.integers(1, 6))):
                before.append(not better and bool(chance.random() < 0.5))
                after.append(before[-1] or better)
                groups.append(f"s{session}")
        found = paired_difference(before, after, groups, seed=trial)
        inside += found.low <= 0.3 <= found.high
    assert inside >= 165


def test_the_seed_decides() -> None:
    pairs = ([False, True, False], [True, True, False], ["a", "b", "c"])
    assert paired_difference(*pairs, seed=3) == paired_difference(*pairs, seed=3)
    assert paired_difference(*pairs, seed=3) != paired_difference(*pairs, seed=4)
