"""Arms (behaviour H7): a hash decides, and nothing else."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError
from trial_play import START, TWO, a_record, an_experiment, minutes

from turnwise.facts.experiments import Arm, Experiment
from turnwise.facts.sessions import SessionKey
from turnwise.selection.alternatives import Assignment, arm_of, assign, unit_of

KEY = SessionKey("app", "ada", "s")


@given(st.text(max_size=20), st.text(max_size=20))
def test_the_same_unit_always_has_the_same_arm(user: str, session: str) -> None:
    experiment = an_experiment()
    assert arm_of(experiment, "app", (user, session)) == arm_of(an_experiment(), "app", (user, session))


def test_arms_are_stable_across_releases() -> None:
    """A session must not change its arm because of an upgrade."""
    experiment = an_experiment(arms=(*TWO, Arm(name="c")))
    assert "".join(arm_of(experiment, "app", (str(number),)).name for number in range(24)) == STABLE


STABLE = "ccbbcababbbbbbaccabacbac"


def test_arms_have_their_shares() -> None:
    experiment = an_experiment(arms=(Arm(name="a", weight=1), Arm(name="b", weight=2), Arm(name="c", weight=7)))
    counts = Counter(arm_of(experiment, "app", ("user", str(number))).name for number in range(10_000))
    assert {name: round(count / 1_000) for name, count in counts.items()} == {"a": 1, "b": 2, "c": 7}


def test_the_name_salts_the_hash() -> None:
    """Two experiments divide the same users independently of each other."""
    one, other = an_experiment(), an_experiment(name="another")
    both = Counter((arm_of(one, "app", (str(n),)).name, arm_of(other, "app", (str(n),)).name) for n in range(4_000))
    assert all(850 < count < 1_150 for count in both.values())


def test_a_user_has_one_arm_in_all_sessions_if_users_are_assigned() -> None:
    by_user, by_session = an_experiment(unit="user"), an_experiment()
    sessions = [SessionKey("app", "ada", str(number)) for number in range(40)]
    assert len({arm_of(by_user, "app", unit_of(by_user, key)).name for key in sessions}) == 1
    assert len({arm_of(by_session, "app", unit_of(by_session, key)).name for key in sessions}) == 2


def test_a_session_that_began_before_is_not_in_it() -> None:
    assert assign(a_record(), KEY, START - timedelta(seconds=1)) is None
    found = assign(a_record(), KEY, START)
    assert found is not None
    assert (found.experiment, found.arm in ("a", "b")) == ("trial", True)


def test_the_other_of_two_arms_is_the_shadow() -> None:
    found = assign(a_record(), KEY, START)
    assert found is not None
    assert found.shadow is not None
    assert {found.arm, found.shadow.name} == {"a", "b"}
    for experiment in (an_experiment(paired=False), an_experiment(arms=(*TWO, Arm(name="c")))):
        alone = assign(a_record(experiment), KEY, START)
        assert alone is not None
        assert alone.shadow is None


def test_after_a_stop_older_sessions_keep_their_arm() -> None:
    running, stopped = a_record(), a_record().ended("stopped", minutes(10), actor="x")
    before, after = assign(running, KEY, minutes(5)), assign(stopped, KEY, minutes(5))
    assert before is not None
    assert after == before._replace(shadow=None)
    assert assign(stopped, KEY, minutes(10)) is None


def test_a_promoted_arm_decides_new_sessions() -> None:
    """H7"""
    promoted = a_record().ended("promoted", minutes(10), actor="x", promoted="b")
    assert assign(promoted, KEY, minutes(10)) == Assignment("staples")
    older = assign(promoted, KEY, minutes(9))
    assert older is not None
    assert older.experiment == "trial"


def test_after_a_rollback_the_control_decides_at_once() -> None:
    """H7"""
    rolled_back = a_record().ended("rolled_back", minutes(10), actor="x")
    assert assign(rolled_back, KEY, minutes(5)) == Assignment(None)
    assert assign(rolled_back, KEY, minutes(11)) is None
    stopped_before = a_record().ended("stopped", minutes(5), actor="x").ended("rolled_back", minutes(10), actor="x")
    assert stopped_before.ended_at == minutes(5)


@pytest.mark.parametrize(
    "fields",
    [
        {"arms": (Arm(name="a"), Arm(name="a"))},
        {"arms": (Arm(name="a"),)},
        {"name": ""},
        {"name": "no spaces"},
        {"alpha": 0.0},
        {"worse_by": 2.0},
        {"ripe_seconds": float("nan")},
    ],
)
def test_wrong_experiments_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Experiment(**{"name": "x", "arms": TWO, **fields})  # type: ignore[arg-type]
