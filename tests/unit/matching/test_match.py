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


def part_of(near: float, *probabilities: float, novelty: float = 0.5) -> Match:
    labels = ("a", "b", "c", "d")[: len(probabilities)]
    similarities = np.array(probabilities) / max(probabilities) * near
    nearest = tuple(Nearest(each, f"{each} {near}", float(alike)) for each, alike in zip(labels, similarities, strict=True))
    return Match(labels, np.array(probabilities), similarities, novelty, nearest)


def test_the_part_that_is_nearest_to_something_counts() -> None:
    """What is told around a request says little of whose it is."""
    whole = part_of(0.4, 0.4, 0.3, 0.3, novelty=0.9)
    story, request = part_of(0.2, 0.8, 0.1, 0.1, novelty=0.9), part_of(0.9, 0.02, 0.96, 0.02, novelty=0.0)
    both = whole.with_parts([story, request, story])
    assert both.ranked(1)[0][0] == "b"
    assert both.probabilities.sum() == pytest.approx(1.0)
    assert both.novelty < 0.4
    assert both.similarities.tolist() == np.maximum(whole.similarities, request.similarities).tolist()
    assert [near.text for near in both.nearest][:2] == ["b 0.9", "a 0.4"]
    told_at_length = part_of(0.85, 0.9, 0.05, 0.05).with_parts([story, request, story])
    assert told_at_length.ranked(1)[0][0] == "a"


def test_the_more_parts_there_are_the_less_does_the_whole_say() -> None:
    whole, part = part_of(0.6, 0.7, 0.3), part_of(0.75, 0.3, 0.7)
    said = [whole.with_parts([part] * count).probabilities[0] for count in (2, 4, 8, 12)]
    assert said == sorted(said, reverse=True)
    assert said[0] > 0.5 > said[-1]


def test_nearest_phrases_are_told_once_and_of_one_label_not_too_many() -> None:
    same = part_of(0.5, 0.6, 0.4)
    parts = [same, same, part_of(0.6, 0.6, 0.4), part_of(0.7, 0.6, 0.4)]
    many = part_of(0.5, 0.25, 0.25, 0.25, 0.25)
    assert len(many.with_parts([many, part_of(0.6, 0.25, 0.25, 0.25, 0.25)]).nearest) == 5
    assert [(near.label, near.text) for near in same.with_parts(parts).nearest] == [
        ("a", "a 0.7"), ("a", "a 0.6"), ("b", "b 0.7"), ("b", "b 0.6"),
    ]  # fmt: skip


def test_where_nobody_can_fit_parts_change_nothing() -> None:
    nobody = Match((), np.empty(0), np.empty(0), 1.0, ())
    both = nobody.with_parts([nobody, nobody])
    assert (both.labels, len(both.probabilities), both.novelty, both.nearest) == ((), 0, 1.0, ())
    impossible = match_of(1.0, 0.0).with_parts([match_of(0.0, 1.0), match_of(0.0, 1.0)])
    assert impossible.probabilities.sum() == pytest.approx(1.0)
    assert (impossible.probabilities > 0.0).all()
