"""The policies that decide beside the served one: those of an experiment's arms, the shadow's, and the app's others.

Sessions and users are assigned to arms by a hash: sticky, in every process alike (behaviour H7). A shadow decides on the same
facts, for comparison only (behaviour H6).
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import PolicyError
from turnwise.facts.experiments import Arm, Experiment, ExperimentRecord
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import NotedBy, Selection
from turnwise.facts.sessions import Head, SessionKey
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED
from turnwise.selection.policy import PolicySpec

log = logging.getLogger("turnwise.selection")


def alternatives(
    cascade: Cascade, wanted: Iterable[str], policies: Mapping[str, PolicySpec] | None = None
) -> dict[str, Cascade]:
    """Returns the wanted policies, the shadow's and the app's, bound to the cascade's agents, with what is fitted to these.

    An app's policy that is not wanted is left out if it cannot decide over these agents: a later experiment may name others.

    Args:
        cascade: The served policy.
        wanted: The names of the policies of an experiment's arms.
        policies: The app's policies by name. Any other name is that of a named policy.

    Raises:
        PolicyError: A wanted policy does not exist, or cannot decide over the agents.
    """
    names = dict.fromkeys([*wanted, *([cascade.spec.shadow] if cascade.spec.shadow is not None else [])])
    known = {**NAMED, **(policies or {})}
    for name in names:
        if name not in known:
            raise PolicyError(f"There is no policy named {name!r}.", fix=f"Policies: {', '.join(known)}.")
    found = {name: cascade.with_policy(known[name]) for name in names}
    for name, spec in (policies or {}).items():
        if name not in found:
            try:
                found[name] = cascade.with_policy(spec)
            except PolicyError as problem:
                log.info("The policy %r is left out: %s", name, problem)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRequest:
    """The facts of a decision that the shadow decides on, too."""

    cascade: Cascade
    """The shadow's policy."""
    head: Head
    """The session's head before the message."""
    message: Content
    context: MessageContext
    noted: tuple[NotedBy, ...]
    resting: frozenset[str]
    message_id: str
    may_ask: bool
    """True if stages may ask a service outside of this process."""
    experiment: str | None = None
    arm: str | None = None
    """The arm of the experiment that the shadow stands for; None for the shadow of a policy."""


class AsksOutside(Exception):
    """The shadow would ask somebody outside of this process, and may not."""


async def decide_in_shadow(request: ShadowRequest) -> Selection:
    """Returns what the shadow's policy decides. Changes nothing.

    Raises:
        AsksOutside: A stage would ask somebody outside.
        NobodyEligible: No agent is eligible.
    """

    async def before_remote_call() -> None:
        if not request.may_ask:
            raise AsksOutside

    decided = await request.cascade.decide(
        head=request.head,
        message=request.message,
        context=request.context,
        noted=request.noted,
        resting=request.resting,
        message_id=request.message_id,
        before_remote_call=before_remote_call,
    )
    return decided.replace_valid(experiment=request.experiment, arm=request.arm)


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
