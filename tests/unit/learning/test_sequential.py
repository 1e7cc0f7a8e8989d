"""Sequential statistics (behaviour H7): the intervals and tests hold at every look."""

import math

import numpy as np
import pytest
from bench.experiments import ends_with_winner, with_difference, without_difference
from hypothesis import given, settings, strategies as st

from turnwise.learning.experiment_statistics import always_valid_p, differences, evidence_of_counts, mixture_width

shares = st.floats(min_value=0.0, max_value=1.0)
units = st.lists(st.tuples(shares, st.booleans(), st.integers(0, 3)), min_size=1, max_size=60)


@given(units)
def test_differences_are_those_of_the_means_and_their_intervals_hold_them(drawn: list[tuple[float, bool, int]]) -> None:
    values = np.array([value for value, _, _ in drawn])
    treated = np.array([side for _, side, _ in drawn])
    found = differences(values, treated, alpha=0.05, least=2)
    if min(treated.sum(), (~treated).sum()) >= 2:
        assert math.isclose(found.estimates[-1], values[treated].mean() - values[~treated].mean(), abs_tol=1e-9)
    else:
        assert (found.low[-1], found.high[-1]) == (-1.0, 1.0)
    assert (found.low <= found.estimates + 1e-12).all()
    assert (found.estimates <= found.high + 1e-12).all()


@given(units)
def test_the_two_sides_mirror_each_other(drawn: list[tuple[float, bool, int]]) -> None:
    values, treated, parts = (np.array(column) for column in zip(*drawn, strict=True))
    one = differences(values, treated, parts, alpha=0.1, least=3)
    other = differences(values, ~treated, parts, alpha=0.1, least=3)
    assert np.allclose(one.estimates, -other.estimates)
    assert np.allclose(one.low, -other.high)


@given(units)
def test_a_look_does_not_depend_on_what_comes_later(drawn: list[tuple[float, bool, int]]) -> None:
    values, treated, parts = (np.array(column) for column in zip(*drawn, strict=True))
    half = max(1, len(drawn) // 2)
    whole = differences(values, treated, parts, alpha=0.05, least=2)
    first = differences(values[:half], treated[:half], parts[:half], alpha=0.05, least=2)
    assert np.allclose(whole.low[:half], first.low)
    assert np.allclose(whole.estimates[:half], first.estimates)


@given(st.floats(1e-6, 1e-2), st.floats(0.001, 0.2))
def test_an_interval_is_wider_than_one_for_a_single_look(variance: float, alpha: float) -> None:
    (width,) = mixture_width(np.array([variance]), alpha)
    assert width > math.sqrt(variance * 2 * math.log(1 / alpha)) * 0.99
    (narrower,) = mixture_width(np.array([variance / 2]), alpha)
    assert narrower < width


def test_units_are_compared_within_the_times_between_breaks() -> None:
    """After the break everything is worse, and the arms have other shares. That is no difference of the arms."""
    random = np.random.default_rng(3)
    parts = np.repeat([0, 1], 2_000)
    treated = random.random(4_000) < np.where(parts == 0, 0.8, 0.2)
    values = (random.random(4_000) < np.where(parts == 0, 0.95, 0.6)).astype(float)
    split, pooled = (differences(values, treated, given, alpha=0.05, least=50) for given in (parts.astype(np.int64), None))
    assert split.low[-1] < 0 < split.high[-1]
    assert pooled.low[-1] > 0.1


@settings(deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2]), max_size=50), st.floats(0.5, 200))
def test_the_evidence_is_a_ratio_of_probabilities(kinds: list[int], prior: float) -> None:
    shares = (0.5, 0.3, 0.2)
    found = evidence_of_counts(kinds, shares, prior)
    assert len(found) == len(kinds)
    again = evidence_of_counts(sorted(kinds), shares, prior)
    if kinds:
        assert math.isclose(found[-1], again[-1], abs_tol=1e-9)  # the order does not matter for the last value
    assert 0 <= always_valid_p(found) <= 1


def test_the_expected_evidence_ratio_is_one_under_the_right_shares() -> None:
    """Over all outcomes of ten draws, weighted by their probability: no draw can be expected to speak against the truth."""
    share = 0.3
    total = 0.0
    for ones in range(11):
        kinds = [1] * ones + [0] * (10 - ones)
        weight = math.comb(10, ones) * share**ones * (1 - share) ** (10 - ones)
        total += weight * math.exp(evidence_of_counts(kinds, (1 - share, share), 5.0)[-1])
    assert math.isclose(total, 1.0, abs_tol=1e-9)


def test_wrong_shares_are_found_and_right_ones_are_not() -> None:
    random = np.random.default_rng(5)
    right = [
        always_valid_p(evidence_of_counts((random.random(3_000) < 0.5).astype(int).tolist(), (0.5, 0.5))) for _ in range(200)
    ]
    assert sum(p < 0.05 for p in right) <= 10
    wrong = always_valid_p(evidence_of_counts((random.random(20_000) < 0.46).astype(int).tolist(), (0.5, 0.5)))
    assert wrong < 1e-6


@pytest.mark.parametrize("late", [True, False], ids=["late labels of some", "all labelled"])
def test_experiments_without_a_difference_seldom_have_a_winner(late: bool) -> None:
    """H7"""
    assert without_difference(60, 11, late=late) <= 0.06


def test_a_difference_of_three_points_is_mostly_found() -> None:
    """H7"""
    assert with_difference(40, 12) >= 0.8


def test_counting_every_decision_would_find_differences_that_are_not_there() -> None:
    """Why a unit counts once: decisions of a unit resemble each other."""
    random, found = np.random.default_rng(8), 0
    for _ in range(20):
        arms = []
        for _ in range(2):
            rights = random.beta(0.88 / 0.6, 0.12 / 0.6, 400)
            arms.append((random.random((400, 20)) < rights[:, None]).astype(float).ravel())
        found += ends_with_winner(random, *arms)
    assert found >= 5


def test_nothing_is_found_without_units() -> None:
    empty = differences(np.array([]), np.array([], dtype=bool), np.array([], dtype=np.int64), alpha=0.05, least=10)
    assert empty.first_above is empty.first_below is empty.first_worse(0.1) is None
    assert always_valid_p(evidence_of_counts([], (0.5, 0.5))) == 1.0
