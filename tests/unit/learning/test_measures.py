"""The measures, by hand-computed examples and by what must hold for any outcomes (behaviour E3)."""

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.learning.measures import (
    MAX_GROUPS,
    Confusion,
    Outcome,
    also_measures,
    auroc,
    by_method,
    calibration_error,
    confusions,
    coverage,
    measure,
    out_of_scope_measures,
    percentile,
    reliability,
    share,
    stability,
)


def outcome(expected: str | None, chosen: str | None, *scores: float, dialogue: str | None = None, **more: Any) -> Outcome:
    """An outcome whose best is the chosen agent, or, when nobody is, the agent `x`."""
    ranked = tuple(zip((chosen or "x", "y", "z", "w"), scores, strict=False))
    taken = Outcome(text="t", expected=expected, agent=chosen or "root", chosen=chosen, ranked=ranked, dialogue=dialogue)
    return taken._replace(**more)


def talk(name: str, *pairs: tuple[str | None, str], scored: bool = True) -> list[Outcome]:
    return [
        outcome(expected, chosen, 1.0, dialogue=name, turn=turn, scored=expected is not None and scored)
        for turn, (expected, chosen) in enumerate(pairs)
    ]


def test_accuracy_counts_all_cases_and_in_scope_the_best_scored() -> None:
    """E3: nobody right and wrong count in accuracy; who was best, though not chosen, counts in scope."""
    found = measure(
        [
            outcome("a", "a", 0.9),
            outcome("a", "b", 0.8, 0.1),
            outcome("x", None, 0.4),  # abstained, but x was the best
            outcome(None, None, 0.2),
            outcome(None, "a", 0.6),
        ]
    )
    assert found.cases == 5
    assert found.accuracy == pytest.approx(2 / 5)
    assert found.in_scope_accuracy == pytest.approx(2 / 3)


def test_the_right_one_may_be_among_three() -> None:
    """E3: of four ranked, the fourth is not among the three best."""
    fourth = outcome("w", "a", 0.4, 0.3, 0.2, 0.1)
    assert measure([fourth, outcome("z", "a", 0.4, 0.3, 0.2, 0.1)]).top3_accuracy == pytest.approx(0.5)


def test_switches_and_stays_are_told_by_the_scored_turns() -> None:
    """E3: a, a, (unknown), b, b: one stay, one switch over the unknown turn, one stay; first turns are neither."""
    found = measure(talk("d", ("a", "a"), ("a", "b"), (None, "b"), ("b", "b"), ("b", "a")))
    assert found.switch_accuracy == pytest.approx(1.0)
    assert found.stay_accuracy == pytest.approx(0.0)
    assert measure([outcome("a", "a", 1.0), outcome("b", "b", 1.0)]).switch_accuracy is None


def test_the_turn_after_a_wrong_choice_is_measured() -> None:
    """E3: a dialogue's turn after a wrong scored one; an unknown turn between does not count, nor does another dialogue."""
    found = measure([*talk("d", ("a", "b"), (None, "c"), ("a", "a"), ("b", "a"), ("b", "a")), *talk("e", ("a", "a"))])
    assert found.after_error == pytest.approx(1 / 2)
    assert measure(talk("d", ("a", "a"), ("b", "b"))).after_error is None


def test_cases_are_grouped_by_their_keys() -> None:
    """E3: the largest group first; a case without the key is in none; after a wrong choice counts by the later turn's group."""
    turns = talk("d", ("a", "b"), ("a", "a"), ("b", "a"), ("b", "b"))
    parts = ("open", "back", "back", "back")
    grouped = [turn._replace(groups={"part": part}) for turn, part in zip(turns, parts, strict=True)]
    found = measure([*grouped, outcome("a", "a", 1.0)]).by
    assert [*found] == ["part"]
    assert [*found["part"]] == ["back", "open"]
    assert [*found["part"]["back"]] == [3, pytest.approx(2 / 3), pytest.approx(1.0)]
    assert tuple(found["part"]["open"]) == (1, 0.0, None)


def test_only_the_largest_groups_are_listed() -> None:
    """E3: a key whose values all differ does not make the figures endless."""
    many = [outcome("a", "a", 1.0)._replace(groups={"id": str(number)}) for number in range(MAX_GROUPS + 9)]
    listed = measure([*many, many[-1]]).by["id"]
    assert len(listed) == MAX_GROUPS
    assert next(iter(listed)) == str(MAX_GROUPS + 8)


def test_further_agents_are_measured_where_they_are_known() -> None:
    """E3: whichever is first; a name too many is imprecise; cases without the label do not count."""
    both = outcome("a", "b", 1.0)._replace(also=("a",), also_expected=("b",))
    missed = outcome("a", "a", 1.0)._replace(also_expected=("b",))
    false = outcome("a", "a", 1.0)._replace(also=("c",), also_expected=())
    wrong = outcome("a", "d", 1.0)._replace(also=("b",), also_expected=("b",))
    assert [*also_measures([both, missed, false, wrong])] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert also_measures([outcome("a", "a", 1.0)._replace(also=("b",))]) == (None, None)
    found = measure([both, missed])
    assert [found.also_recall, found.also_precision] == [pytest.approx(1 / 2), 1.0]


def test_two_dialogues_are_not_one() -> None:
    """E3: the first turn of the second dialogue is no switch, and no bounce goes over the border."""
    outcomes = [*talk("d1", ("a", "a"), ("a", "b")), *talk("d2", ("b", "a"), ("b", "a"))]
    assert measure(outcomes).switch_accuracy is None
    assert stability(outcomes) == (0.5, None)


def test_going_there_and_back_is_a_bounce() -> None:
    """E3: a b a a c: three of four choices differ from the one before; one of three threes goes there and back."""
    outcomes = talk("d", *[("a", chosen) for chosen in "abaac"])
    assert stability(outcomes) == (3 / 4, 1 / 3)


def test_nobody_is_a_class_of_its_own() -> None:
    """E3: two of three found, one false alarm: recall 2/3, precision 2/3; the novelties order 5 of 6 pairs rightly."""
    none = [outcome(None, None, novelty=0.9), outcome(None, None, novelty=0.8), outcome(None, "a", 1.0, novelty=0.3)]
    some = [outcome("a", "a", 1.0, novelty=0.1), outcome("a", None, novelty=0.5)]
    found = out_of_scope_measures([*none, *some])
    assert found.recall == pytest.approx(2 / 3)
    assert found.f1 == pytest.approx(2 / 3)
    assert found.auroc == pytest.approx(5 / 6)
    assert out_of_scope_measures(some) == (None, None, None)


def test_ties_count_half() -> None:
    """E3: the area under the curve, as ranks with ties give it."""
    assert auroc([1.0, 1.0], [1.0, 0.0]) == pytest.approx(0.75)
    assert auroc([], [1.0]) is None


def test_the_calibration_error_weighs_bins_by_size() -> None:
    """E3: three at 0.9 with two right, one at 0.5 that is right: 3/4 × |2/3 - 0.9| + 1/4 × |1 - 0.5|."""
    outcomes = [outcome("a", "a", 0.9), outcome("a", "a", 0.9), outcome("a", "b", 0.9), outcome("a", "a", 0.5)]
    bins = reliability(outcomes)
    assert [each.cases for each in bins] == [1, 3]
    assert calibration_error(bins) == pytest.approx(0.75 * (0.9 - 2 / 3) + 0.25 * 0.5)
    assert calibration_error([]) is None


def test_full_confidence_is_in_the_last_bin() -> None:
    """E3: a confidence of 1 has no bin of its own."""
    (only,) = reliability([outcome("a", "a", 1.0)])
    assert (only.low, only.high, only.cases) == (14 / 15, 1.0, 1)


def test_percentiles_lie_between_values() -> None:
    """E3: interpolated as numpy does it."""
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == pytest.approx(2.5)
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.99) == pytest.approx(3.97)
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_methods_and_confusions_are_counted() -> None:
    """E3: the most frequent first, with the first message as example."""
    outcomes = [
        outcome("a", "b", 1.0, method="m", text="one"),
        outcome("c", None, method="n", text="two"),
        outcome("c", None, method="n", text="three"),
        outcome("a", "a", 1.0, method="n"),
    ]
    assert by_method(outcomes) == {"n": (3, 1 / 3), "m": (1, 0.0)}
    assert confusions(outcomes) == (Confusion("c", None, 2, "two"), Confusion("a", "b", 1, "one"))
    (long,) = confusions([outcomes[0]._replace(text="x" * 20_000)])
    assert long.example == "x" * 199 + "…"


def test_unscored_turns_cost_time_and_change_agents_but_are_no_cases() -> None:
    """E3: of whom nobody knows who should take them, only latency and stability tell."""
    found = measure([turn._replace(ms=4.0) for turn in talk("d", (None, "a"), (None, "b"))])
    assert (found.cases, found.accuracy, found.ece) == (0, None, None)
    assert (found.switch_rate, found.latency_ms.p50) == (1.0, 4.0)


def test_coverage_goes_from_the_surest_to_all() -> None:
    """E3: ties are taken together."""
    outcomes = [outcome("a", "a", 0.9), outcome("a", "b", 0.5), outcome("a", "a", 0.5), outcome(None, None, 0.1)]
    assert coverage(outcomes) == [(0.25, 1.0), (0.75, 2 / 3), (1.0, 0.5)]


AGENTS = st.sampled_from(["a", "b", "c", None])
OUTCOMES = st.lists(
    st.builds(
        lambda expected, chosen, score, novelty: outcome(expected, chosen, score, novelty=novelty),
        AGENTS,
        AGENTS,
        st.floats(0, 1),
        st.floats(0, 1),
    ),
    max_size=30,
)


@given(OUTCOMES)
def test_whatever_the_outcomes_shares_are_shares(outcomes: list[Outcome]) -> None:
    """E3: every figure is 0 to 1 or absent, cases add up, and nothing depends on the order of single messages."""
    found = measure(outcomes)
    flat = [found.accuracy, found.in_scope_accuracy, found.top3_accuracy, found.ece, *found.nobody]
    assert all(value is None or 0.0 <= value <= 1.0 + 1e-12 for value in flat)
    assert sum(each.cases for each in found.by_method.values()) == found.cases == len(outcomes)
    wrong = sum(each.count for each in found.confusions)
    assert found.accuracy is None or math.isclose(found.accuracy, 1 - wrong / len(outcomes))
    turned = measure(outcomes[::-1])
    back = [turned.accuracy, turned.in_scope_accuracy, turned.top3_accuracy, turned.ece, *turned.nobody]
    for before, after in zip(flat, back, strict=True):
        assert (before is None) == (after is None)
        assert before is None or math.isclose(before, after or 0.0, abs_tol=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1), st.lists(st.floats(0, 1), min_size=1))
def test_the_area_is_the_share_of_pairs(higher: list[float], lower: list[float]) -> None:
    """E3: the same as counting every pair, and 1 minus itself when the sides change."""
    pairs = [1.0 if one > other else 0.5 if one == other else 0.0 for one in higher for other in lower]
    assert auroc(higher, lower) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc(lower, higher) == pytest.approx(1 - sum(pairs) / len(pairs))


@given(OUTCOMES)
def test_coverage_ends_with_all_cases(outcomes: list[Outcome]) -> None:
    """E3: the last point is everything, and coverage never falls."""
    points = coverage(outcomes)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    if outcomes:
        assert points[-1] == (1.0, share(each.best == each.expected for each in outcomes))
