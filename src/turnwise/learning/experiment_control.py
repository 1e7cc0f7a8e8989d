"""Ends experiments: by a promotion, a rollback or a stop, or by themselves when an arm is worse (behaviours H4, H7)."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from turnwise.facts.errors import NothingHere, StaleWriter, StoreError
from turnwise.facts.experiments import ExperimentRecord, ExperimentState
from turnwise.learning.experiments import read_result
from turnwise.ports.audit import Act
from turnwise.ports.experiments import Experiments

LOOK_SECONDS = 60.0
"""How often all processes together check whether an arm is worse."""
BY_ITSELF = "turnwise"
"""The actor of an experiment that ends by itself."""
_TRIES = 5
_MAY_BECOME: Mapping[ExperimentState, Sequence[ExperimentState]] = {
    "running": ("stopped", "promoted", "rolled_back"),
    "stopped": ("promoted", "rolled_back"),
    "promoted": ("promoted", "rolled_back"),
    # Sessions of all arms went back to the control, and must not change once more.
    "rolled_back": (),
}

log = logging.getLogger("turnwise.learning")


async def find_experiment(store: Experiments, app: str, name: str) -> ExperimentRecord:
    """Returns the experiment of that name. Raises NothingHere, StoreError."""
    known = await store.all(app)
    for record in known:
        if record.name == name:
            return record
    names = ", ".join(record.name for record in known) or "none; one starts with the first message"
    raise NothingHere(f"App {app!r} has no experiment {name!r}.", fix=f"Experiments: {names}.")


async def promote(store: Experiments, app: str, name: str, arm: str, now: datetime, *, actor: str) -> ExperimentRecord:
    """Lets an arm's policy decide all sessions that begin from now on. Earlier sessions keep their arm.

    Raises:
        NothingHere: There is no such experiment, or no such arm.
        StaleWriter: The experiment was rolled back, or others kept changing it.
        StoreError: The store cannot be used.
    """
    record = await find_experiment(store, app, name)
    if record.experiment.arm(arm) is None:
        names = ", ".join(each.name for each in record.experiment.arms)
        raise NothingHere(f"The experiment {name!r} has no arm {arm!r}.", fix=f"Arms: {names}.")
    return await _end(store, app, name, "promoted", now, actor=actor, promoted=arm)


async def roll_back(
    store: Experiments, app: str, name: str, now: datetime, *, actor: str, reason: str = ""
) -> ExperimentRecord:
    """Lets the control decide everything at once, in sessions of all arms. Raises as `promote`."""
    return await _end(store, app, name, "rolled_back", now, actor=actor, reason=reason)


async def stop(store: Experiments, app: str, name: str, now: datetime, *, actor: str) -> ExperimentRecord:
    """Takes no more sessions into the experiment. Earlier sessions keep their arm, so that they can be analysed. Raises as
    `promote`.
    """
    return await _end(store, app, name, "stopped", now, actor=actor)


async def _end(
    store: Experiments,
    app: str,
    name: str,
    state: ExperimentState,
    now: datetime,
    *,
    actor: str,
    reason: str = "",
    promoted: str | None = None,
) -> ExperimentRecord:
    """Ends an experiment with that state, and again when another writer was faster. Raises StaleWriter."""
    for _ in range(_TRIES):
        record = await find_experiment(store, app, name)
        if (record.state, record.promoted) == (state, promoted):
            return record
        if state not in _MAY_BECOME[record.state]:
            already = record.state.replace("_", " ")
            raise StaleWriter(f"The experiment {name!r} is {already} already.", fix="Start another one under a new name.")
        ended = record.ended(state, now, actor=actor, reason=reason, promoted=promoted)
        details = {"experiment": name, "arm": promoted, "reason": reason}
        stored = await store.replace(app, ended, act=Act(actor, f"experiment.{state}", details=details))
        if stored is not None:
            return stored
    raise StaleWriter(f"The experiment {name!r} kept being changed by others.", fix="Try again.")


async def end_if_worse(store: Experiments, app: str, name: str, now: datetime) -> ExperimentRecord | None:
    """Rolls a running experiment back when an arm is surely worse than the control by more than the bound.

    Returns:
        The ended experiment; None if it goes on, or another process looked within the last minute.

    Raises:
        StoreError: The store cannot be used.
    """
    record = next((each for each in await store.all(app) if each.name == name), None)
    if record is None or record.state != "running":
        return None
    if record.looked_at is not None and now - record.looked_at < timedelta(seconds=LOOK_SECONDS):
        return None
    claimed = await store.replace(app, record.replace(looked_at=now))
    if claimed is None:
        return None
    result = await read_result(store, app, claimed, now)
    if result.is_broken or not result.harmful:
        return None
    worst, control = result.harmful[0], claimed.experiment.control.name
    reason = (
        f"Arm {worst.arm!r} was surely worse than {control!r} by more than {claimed.experiment.worse_by:g} "
        f"({worst.metric}), after {worst.harmful_after} units."
    )
    return await roll_back(store, app, name, now, actor=BY_ITSELF, reason=reason)


async def watch_experiment(
    store: Experiments, app: str, name: str, now: Callable[[], datetime], *, seconds: float = LOOK_SECONDS
) -> None:
    """Calls `end_if_worse` about once a minute, until it is cancelled. Problems of the store are logged."""
    while True:
        began = now()
        try:
            ended = await end_if_worse(store, app, name, began)
            if ended is not None:
                log.warning("The experiment %r ended by itself: %s", name, ended.reason)
        except StoreError as problem:
            log.warning("The experiment %r cannot be analysed: %s", name, problem)
        except Exception:
            log.exception("The experiment %r cannot be analysed.", name)
        # A long analysis is repeated less often, so that it takes at most a twentieth of the time.
        await asyncio.sleep(max(seconds, 20 * (now() - began).total_seconds()))
