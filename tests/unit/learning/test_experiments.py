"""The analysis of experiments (behaviour H7)."""

import random
from collections.abc import Iterator, Mapping

import pytest
from trial_play import TWO, a_label, a_record, a_shadow, a_trial, an_experiment, minutes

from turnwise.facts.experiments import Arm, Experiment
from turnwise.learning.experiment_statistics import PairReader, read_units
from turnwise.learning.experiments import POINTS, ExperimentResult, analysed
from turnwise.learning.report.pages import experiment_page
from turnwise.ports.experiments import Trial

LATER = minutes(1_000_000)


def traffic(rights: Mapping[str, float], count: int, seed: int = 1) -> Iterator[Trial]:
    """One session of each arm after the other. An arm's policy is right with its share; wrong decisions are labelled."""
    chance = random.Random(seed)
    for number in range(count):
        for arm, right in rights.items():
            minute = float(number)
            labels = () if chance.random() < right else (a_label(minute=minute),)
            yield a_trial(f"{arm}{number}", arm=arm, minute=minute, labels=labels)


def result_of(trials: Iterator[Trial], experiment: Experiment | None = None) -> ExperimentResult:
    experiment = experiment or an_experiment()
    return analysed(a_record(experiment), read_units(experiment, trials), None, LATER)


def test_a_clear_difference_has_a_winner() -> None:
    found = result_of(traffic({"a": 0.7, "b": 0.95}, 800))
    assert (found.winner, found.is_broken, list(found.harmful)) == ("b", False, [])
    (primary,) = found.primary
    assert primary.estimate is not None
    assert 0.1 < primary.low < primary.estimate < primary.high < 0.4
    assert primary.better_after is not None
    assert primary.better_after < 1_600
    assert len(primary.over_time) == POINTS
    assert primary.over_time[-1] == (1_600, primary.estimate, primary.low, primary.high)
    assert [(arm.name, arm.units, arm.ripe, arm.decisions) for arm in found.arms] == [
        ("a", 800, 800, 800),
        ("b", 800, 800, 800),
    ]


def test_an_arm_that_is_worse_beyond_the_bound_is_harmful() -> None:
    """H7"""
    found = result_of(traffic({"a": 0.95, "b": 0.6}, 800), an_experiment(worse_by=0.1))
    assert [each.arm for each in found.harmful] == ["b"]
    assert found.winner == "a"
    mild = result_of(traffic({"a": 0.95, "b": 0.6}, 800), an_experiment(worse_by=0.9))
    assert (list(mild.harmful), mild.winner) == ([], "a")


def test_like_arms_have_no_winner() -> None:
    found = result_of(traffic({"a": 0.8, "b": 0.8}, 500))
    assert (found.winner, list(found.harmful)) == (None, [])


def test_few_units_have_no_interval() -> None:
    found = result_of(traffic({"a": 0.0, "b": 1.0}, 9))
    assert {(each.estimate, each.low, each.high, each.better_after) for each in found.comparisons} == {(None, -1.0, 1.0, None)}
    assert found.winner is None


def test_units_that_are_not_ripe_do_not_count() -> None:
    """H7"""
    experiment = an_experiment()
    reader = read_units(experiment, traffic({"a": 0.5, "b": 0.5}, 100))
    early = analysed(a_record(experiment), reader, None, minutes(109.5))
    assert [(arm.units, arm.ripe) for arm in early.arms] == [(100, 50), (100, 50)]


def test_arms_and_metrics_share_the_alpha() -> None:
    """H7"""
    three = an_experiment(arms=(*TWO, Arm(name="c")), alpha=0.06)
    found = result_of(traffic({"a": 0.7, "b": 0.9, "c": 0.95}, 600), three)
    assert [(each.arm, each.metric, round(each.alpha, 6)) for each in found.comparisons] == [
        ("b", "uncorrected", 0.03),
        ("c", "uncorrected", 0.03),
        *[(arm, metric, 0.015) for metric in ("answered", "unclarified") for arm in ("b", "c")],
    ]
    assert found.winner == "c"


def test_arms_without_their_shares_break_the_experiment() -> None:
    """H7: something else than the hash decides who is in an arm, or loses units of one."""
    trials = [each for each in traffic({"a": 0.5, "b": 1.0}, 900) if each.arm == "b" or int(each.key.id[1:]) % 3]
    found = result_of(iter(trials))
    assert found.is_broken
    assert (found.winner, found.ratio_p < 0.001) == (None, True)
    assert not result_of(iter(trials), an_experiment(arms=(Arm(name="a", weight=2), Arm(name="b", weight=3)))).is_broken


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_analysis_is_plain_data_and_a_page(share: float) -> None:
    experiment = an_experiment()
    trials = [*traffic({"a": 0.9, "b": share}, 50), a_trial("x", minute=60, tree_version="new", shadow=a_shadow())]
    pairs = PairReader(lambda trial: (trial.key.id,), "a")
    for trial in trials:
        pairs.add(trial)
    found = analysed(a_record(experiment), read_units(experiment, trials), pairs.result(), LATER)
    data = found.data()
    assert (data["name"], data["broken"], len(data["breaks"])) == ("trial", False, 1)  # type: ignore[arg-type]
    page = experiment_page(found)
    assert "trial" in page
    assert "ripe units" in page
    assert "Breaks" in page


def test_the_page_of_an_experiment_that_has_just_begun() -> None:
    assert "none yet" in experiment_page(result_of(iter(())))
