"""The paired comparison (behaviours H6, H7): who is right where two policies decide differently."""

from collections.abc import Iterable
from typing import Any

from trial_play import a_label, a_shadow, a_trial

from turnwise.learning.experiment_statistics import Paired, PairReader
from turnwise.ports.experiments import Trial

RANDOM: dict[str, Any] = {"source": "operator", "picked": "random"}


def compared(trials: Iterable[Trial], first: str | None = "a", *, only_random: bool = False) -> Paired:
    reader = PairReader(lambda trial: (trial.key.user, trial.key.id), first, only_random=only_random)
    for trial in trials:
        reader.add(trial)
    return reader.result()


def test_only_different_decisions_can_tell() -> None:
    same = a_trial(shadow=a_shadow("orders"), labels=(a_label(),))
    other = a_trial("s2", shadow=a_shadow("billing"))
    found = compared([same, other, a_trial("s3")])
    assert (found.decisions, found.differ, found.labelled, found.p, found.better) == (2, 1, 0, 1.0, None)
    assert found.data()["differ_share"] == 0.5


def test_each_unit_counts_once_for_the_policy_that_was_right_more_often() -> None:
    """H7: twenty decisions of one session are no more than one."""
    one = [a_trial(shadow=a_shadow(), labels=(a_label(),), minute=number) for number in range(20)]
    found = compared(one)
    assert (found.labelled, found.first_units, found.second_units, found.better) == (20, 0, 1, None)
    many = [a_trial(f"s{number}", shadow=a_shadow(), labels=(a_label(),)) for number in range(20)]
    found = compared(many)
    assert (found.second_units, found.better) == (20, "b")
    assert found.p < 0.001


def test_the_arms_are_the_same_whoever_of_them_was_served() -> None:
    served_b = a_trial("s1", arm="b", agent="billing", shadow=a_shadow("orders", arm="a"), labels=(a_label("billing"),))
    served_a = a_trial("s2", arm="a", agent="orders", shadow=a_shadow("billing", arm="b"), labels=(a_label("billing"),))
    for trials in ([served_a, served_b], [served_b, served_a]):
        found = compared(trials)
        assert (found.first, found.second, found.first_units, found.second_units) == ("a", "b", 0, 2)


def test_labels_of_users_do_not_speak_for_a_shadow() -> None:
    """They are given where the served policy was wrong, so they could never speak for it."""
    complaints = [a_trial(f"s{number}", arm=None, shadow=a_shadow(arm=None), labels=(a_label(),)) for number in range(20)]
    found = compared(complaints, None, only_random=True)
    assert (found.differ, found.labelled, found.better) == (20, 0, None)
    picked = [a_trial(f"s{number}", arm=None, shadow=a_shadow(arm=None), labels=(a_label(**RANDOM),)) for number in range(20)]
    found = compared(picked, None, only_random=True)
    assert (found.first, found.second, found.better) == ("served", "other", "other")


def test_shadows_of_an_experiment_and_of_a_policy_are_apart() -> None:
    trials = [a_trial(shadow=a_shadow(arm=None)), a_trial(shadow=a_shadow(arm="b"))]
    assert compared(trials).decisions == compared(trials, None).decisions == 1


def test_a_question_to_the_user_is_not_right() -> None:
    asks = a_trial(outcome="clarify", agent="billing", shadow=a_shadow("billing"), labels=(a_label("billing"),))
    found = compared([asks])
    assert (found.differ, found.first_units, found.second_units) == (1, 0, 1)


def test_nothing_is_compared_without_decisions() -> None:
    found = compared([])
    assert (found.first, found.second, found.p, found.data()["differ_share"]) == ("a", "shadow", 1.0, None)
