"""When an agent rests, for how long, and when it is tried again."""

from datetime import UTC, datetime, timedelta

from turnwise.ports.rests import LONGEST, PROBE, WINDOW, Rest

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AFTER = timedelta(seconds=31)


def fail(rest: Rest, *users: str, at: datetime = NOW) -> Rest:
    for user in users:
        rest = rest.after_outage(user, at, seconds=30, users=3)
    return rest


def test_failures_of_three_users_begin_a_rest() -> None:
    """C20: many failures of one user do not."""
    rest = fail(Rest(agent="x"), "ada", "ada", "bob", "ada", "ada")
    assert not rest.excludes(NOW)
    rest = fail(rest, "eve")
    assert rest.until == NOW + timedelta(seconds=30)
    assert rest.excludes(NOW)
    assert fail(rest, "ada", "bob") is rest, "answers that began before the rest"


def test_old_failures_do_not_count() -> None:
    rest = fail(Rest(agent="x"), "ada", "bob")
    assert not fail(rest, "eve", at=NOW + WINDOW + AFTER).excludes(NOW + WINDOW + AFTER)


def test_after_the_rest_one_message_is_a_probe() -> None:
    """C20"""
    rest, later = fail(Rest(agent="x"), "ada", "bob", "eve"), NOW + AFTER
    assert rest.is_due(later)
    assert not rest.excludes(later)
    probed = rest.probed(later)
    assert probed.excludes(later)
    assert not probed.is_due(later)
    assert probed.is_due(later + PROBE), "its process died"
    assert probed.after_success().is_clear


def test_a_failed_probe_makes_the_rest_longer_up_to_a_limit() -> None:
    """C20: one failure is enough then."""
    rest, now = fail(Rest(agent="x"), "ada", "bob", "eve"), NOW
    lengths = []
    for _ in range(8):
        assert rest.until is not None
        now = rest.until + timedelta(seconds=1)
        rest = fail(rest.probed(now), "ada", at=now)
        assert rest.until is not None
        lengths.append((rest.until - now).total_seconds())
    assert lengths[:3] == [60, 120, 240]
    assert lengths[-1] == LONGEST.total_seconds()
