"""Processes that are killed with SIGKILL while they answer."""

from pathlib import Path

from survival_play.checks import waits
from survival_play.storm import Plan, kills, storm


async def test_what_was_accepted_is_answered_once(url: str, tmp_path: Path) -> None:
    """Decisions 3 and 6, A32–A34, E7: whoever is killed at whatever moment, under mixed traffic on many sessions.

    Sequences have no gaps, messages keep their order, answers do not interleave, work that a step has recorded is not done
    again, and state counts what was answered.
    """
    plan = Plan(breakages=6, ttl=1.0, seed=1)
    outcome = await storm(url, tmp_path, plan, kills(plan))
    assert outcome.problems == []
    assert len(outcome.findings.kills) == plan.breakages
    # It would show nothing if nobody had been at work when he was killed.
    assert waits(outcome.findings).seconds
    assert outcome.findings.troubles == []
