"""What matching says of a text."""

import numpy as np
import pytest

from turnwise.matching.match import Match, Nearest


def match_of(*probabilities: float) -> Match:
    labels = ("a", "b", "c", "d")[: len(probabilities)]
    nearest = tuple(Nearest(label, f"text of {label}", 0.5) for label in labels)
    return Match(labels, np.array(probabilities), np.arange(len(labels)) / 10, 0.25, nearest)


def test_among_some_labels_probabilities_sum_to_one_again() -> None:
    """C20: only the eligible are scored."""
    match = match_of(0.5, 0.25, 0.15, 0.1)
    for labels in (("d", "b", "unknown"), {"d", "b"}, ["b", "d"], {"b": 1, "d": 2}.keys()):
        among = match.among(labels)
        assert among.labels == ("b", "d")
        assert among.probabilities == pytest.approx([0.25 / 0.35, 0.1 / 0.35])
        assert among.similarities.tolist() == [0.1, 0.3]
        assert [near.label for near in among.nearest] == ["b", "d"]
        assert among.novelty == match.novelty
    assert match.labels == ("a", "b", "c", "d")


def test_among_all_labels_it_is_the_same() -> None:
    match = match_of(0.5, 0.5)
    assert match.among(("b", "a", "z")) is match


def test_among_none_it_is_empty_and_among_impossible_ones_all_are_alike() -> None:
    assert match_of(0.5, 0.5).among(()).labels == ()
    assert match_of(1.0, 0.0, 0.0).among(("b", "c")).probabilities.tolist() == [0.5, 0.5]


def test_ranked_is_best_first_and_equal_ones_keep_their_order() -> None:
    """E9"""
    assert match_of(0.2, 0.4, 0.2, 0.2).ranked(3) == [("b", 0.4), ("a", 0.2), ("c", 0.2)]
