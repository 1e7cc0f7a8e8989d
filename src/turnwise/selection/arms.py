"""Assigns sessions and users to the arms of an experiment: by a hash, sticky, in every process alike (behaviour H7)."""

import hashlib
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.sessions import SessionKey
from turnwise.ports.experiments import Arm, Experiment, ExperimentRecord


class Assignment(NamedTuple):
    """The policy that decides a message because of an experiment."""

    policy: str | None
    """None = the app's own policy."""
    experiment: str | None = None
    """The experiment that the decision counts for; None when it does not count."""
    arm: str | None = None
    shadow: Arm | None = None
    """The arm that decides as the shadow; None = none because of the experiment."""


def unit_of(experiment: Experiment, key: SessionKey) -> tuple[str, ...]:
    """Returns what identifies the session's unit within the app."""
    return (key.user,) if experiment.unit == "user" else (key.user, key.id)


def arm_of(experiment: Experiment, app: str, unit: tuple[str, ...]) -> Arm:
    """Returns the arm of a unit: a hash of the experiment's name and the unit, weighted. The same unit always gets the same."""
    named = "".join(f"{len(part)}:{part}" for part in (experiment.name, app, *unit))
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8, person=b"experiment").digest()
    place = int.from_bytes(digest, "big") / 2**64 * sum(arm.weight for arm in experiment.arms)
    for arm in experiment.arms:
        place -= arm.weight
        if place < 0:
            return arm
    return experiment.arms[-1]


def assign(record: ExperimentRecord, key: SessionKey, began: datetime) -> Assignment | None:
    """Returns the policy for a session's next message; None = the experiment does not concern the session.

    A session that began before the experiment is never in it. After the end, sessions that began during the experiment keep
    their arm, except after a rollback: then the control decides everything at once. After a promotion, the promoted arm
    decides all sessions that begin later.

    Args:
        record: The experiment.
        key: The session.
        began: When the session began.
    """
    experiment = record.experiment
    if began < record.started_at:
        return None
    if record.ended_at is not None and began >= record.ended_at:
        promoted = experiment.arm(record.promoted) if record.promoted is not None else None
        return Assignment(promoted.policy) if promoted is not None else None
    if record.state == "rolled_back":
        return Assignment(experiment.control.policy)
    arm = arm_of(experiment, key.app, unit_of(experiment, key))
    others = [each for each in experiment.arms if each.name != arm.name]
    is_paired = experiment.paired and len(others) == 1 and record.state == "running"
    return Assignment(arm.policy, experiment.name, arm.name, others[0] if is_paired else None)
