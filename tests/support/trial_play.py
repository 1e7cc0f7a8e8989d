"""Decisions of experiments, made up for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.experiments import Arm, Experiment, ExperimentRecord, Trial, TrialLabel

START = datetime(2030, 1, 1, tzinfo=UTC)
TWO = (Arm(name="a"), Arm(name="b", policy="staples"))


def minutes(number: float) -> datetime:
    return START + timedelta(minutes=number)


def an_experiment(**fields: Any) -> Experiment:
    """Units are ripe after an hour."""
    return Experiment(**{"name": "trial", "arms": TWO, "ripe_seconds": 3_600.0, "least_units": 10, **fields})


def a_record(experiment: Experiment | None = None, **fields: Any) -> ExperimentRecord:
    return ExperimentRecord(experiment=experiment or an_experiment(), started_at=START, **fields)


def a_trial(session: str = "s", arm: str | None = "a", minute: float = 0.0, **fields: Any) -> Trial:
    user = fields.pop("user", "ada")
    values = {
        "sequence": 1,
        "agent": "orders",
        "outcome": "chosen",
        "state": "completed",
        "fingerprint": f"policy of {arm}",
        "tree_version": "tree",
    }
    return Trial(key=SessionKey("app", user, session), arm=arm, at=minutes(minute), **{**values, **fields})


def a_label(agent: str | None = "billing", minute: float = 1.0, **fields: Any) -> TrialLabel:
    values = {"source": "user", "picked": None, "weight": 1.0}
    return TrialLabel(agent=agent, at=minutes(minute), **{**values, **fields})


def a_shadow(agent: str = "billing", arm: str | None = "b", **fields: Any) -> Selection:
    return Selection(agent=agent, method="pattern", confidence=0.9, policy="other", arm=arm, **fields)
