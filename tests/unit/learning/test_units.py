"""The units of an experiment (behaviour H7): each counts once, when it is ripe, whatever its labels."""

from typing import Any

from trial_play import START, a_label, a_trial, an_experiment, minutes

from turnwise.learning.experiment_statistics import UnitReader, is_failure, read_units
from turnwise.ports.experiments import Trial

RANDOM: dict[str, Any] = {"source": "operator", "picked": "random"}


def only(*trials: Trial, **fields: object) -> dict[str, float]:
    (unit,) = read_units(an_experiment(**fields), trials).units()
    return {str(metric): mean for metric, mean in unit.means.items()}


def test_a_unit_counts_once_by_the_mean_of_its_decisions() -> None:
    """H7"""
    means = only(
        a_trial(minute=0),
        a_trial(minute=1, outcome="clarify", state="clarify"),
        a_trial(minute=2, state="failed"),
        a_trial(minute=3, state=None, labels=(a_label(minute=4),)),
    )
    assert means == {"uncorrected": 0.5, "answered": 0.75, "unclarified": 0.75}


def test_a_unit_without_labels_counts_like_one_whose_decisions_were_right() -> None:
    assert only(a_trial())["uncorrected"] == 1.0
    assert only(a_trial(labels=(a_label("orders"),)))["uncorrected"] == 1.0
    assert only(a_trial(labels=(a_label("billing"),)))["uncorrected"] == 0.0


def test_a_label_of_nobody_names_no_other_agent() -> None:
    assert only(a_trial(agent="desk", labels=(a_label(None),)))["uncorrected"] == 1.0


def test_what_comes_after_a_pause_does_not_count() -> None:
    """H7: neither messages nor labels."""
    reader = read_units(an_experiment(), [a_trial(minute=0), a_trial(minute=59), a_trial(minute=120), a_trial(minute=121)])
    (unit,) = reader.units()
    assert (unit.decisions, unit.ripe_at, unit.began) == (2, minutes(119), START)
    assert only(a_trial(labels=(a_label(minute=61),)))["uncorrected"] == 1.0
    assert only(a_trial(labels=(a_label(minute=60),)))["uncorrected"] == 0.0


def test_a_unit_that_never_pauses_is_ripe_at_last() -> None:
    reader = read_units(an_experiment(), [a_trial(minute=50 * number) for number in range(200)])
    (unit,) = reader.units()
    assert unit.ripe_at == minutes(30 * 60)
    assert unit.decisions == 37


def test_labels_of_what_operators_picked_for_its_doubt_do_not_count() -> None:
    """One policy may be in doubt more often than another."""
    doubt, random = a_label(source="operator", picked="doubt"), a_label(**RANDOM)
    assert only(a_trial(labels=(doubt,)))["uncorrected"] == 1.0
    assert only(a_trial(labels=(random,)))["uncorrected"] == 0.0
    overruled = (a_label("orders", **RANDOM), a_label("billing"))
    assert only(a_trial(labels=overruled))["uncorrected"] == 1.0


def test_sessions_of_a_user_are_one_unit_if_users_are_assigned() -> None:
    trials = [a_trial("s1"), a_trial("s2", minute=1), a_trial("s1", user="bob", minute=2)]
    assert [unit.name for unit in read_units(an_experiment(unit="user"), trials).units()] == [("ada",), ("bob",)]
    assert len(read_units(an_experiment(), trials).units()) == 3


def test_units_come_in_the_order_in_which_they_are_ripe() -> None:
    trials = [a_trial("long", minute=0), a_trial("short", minute=1), a_trial("long", minute=30)]
    assert [unit.name[1] for unit in read_units(an_experiment(), trials).units()] == ["short", "long"]


def test_a_change_of_definitions_is_a_marked_break() -> None:
    """H7"""
    trials = [
        a_trial("s1", minute=0, tree_version="old"),
        a_trial("s2", minute=1, tree_version=""),  # its record was pruned
        a_trial("s3", minute=2, tree_version="new"),
        a_trial("s4", arm="b", minute=3, tree_version="new"),
    ]
    reader = read_units(an_experiment(), trials)
    assert [(each.at, each.tree_version) for each in reader.breaks] == [(minutes(2), "new")]
    assert [unit.part for unit in reader.units()] == [0, 0, 1, 1]
    assert reader.fingerprints == {"a": ["policy of a"], "b": ["policy of b"]}


def test_decisions_of_no_arm_or_an_unknown_one_do_not_count() -> None:
    reader = UnitReader(an_experiment())
    for trial in (a_trial(arm=None), a_trial(arm="gone")):
        reader.add(trial)
    assert reader.units() == []
    reader.add(a_trial(arm="a"))
    reader.add(a_trial(arm="b", minute=1))  # of a fork that was made of it
    assert [(unit.arm, unit.decisions) for unit in reader.units()] == [("a", 1)]


def test_failures_are_those_of_the_invocation() -> None:
    failures = [
        state for state in (None, "running", "completed", "cancelled", "failed", "loop", "limit:tokens") if is_failure(state)
    ]
    assert failures == ["failed", "loop", "limit:tokens"]
