"""Processes that are killed with SIGKILL while they answer."""

from pathlib import Path

import pytest
from restate_play import restate_server, skip_without_restate
from survival_play.checks import waits
from survival_play.storm import Plan, kills, storm

from turnwise.testing.postgres import new_postgres_database


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


async def test_it_is_so_with_an_engine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Gateways and workers in one, on a real Restate server: every message goes through the inbox, the engine spreads them."""
    skip_without_restate()
    plan = Plan(processes=3, sessions=20, breakages=4, rate=6.0, ttl=1.0, seed=2)
    with restate_server(tmp_path_factory.mktemp("restate")) as server:
        outcome = await storm(new_postgres_database(), tmp_path, plan, kills(plan), engine=server.engine)
    assert outcome.problems == []
    assert len(outcome.findings.kills) == plan.breakages
    assert outcome.findings.troubles == []
