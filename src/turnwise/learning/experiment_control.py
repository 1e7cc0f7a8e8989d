"""Starts and ends experiments: by a request, or by themselves when an arm is worse (behaviours H4, H7)."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from turnwise.facts.errors import NothingHere, StaleWriter, StoreError
from turnwise.learning.experiments import read_result
from turnwise.ports.experiments import Experiment, ExperimentRecord, Experiments, ExperimentState, serving_experiment
from turnwise.ports.records import Act

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


async def start(store: Experiments, app: str, experiment: Experiment, now: datetime, *, actor: str) -> ExperimentRecord:
    """Starts an experiment. Sessions that begin from now on are in it, in all processes within a second.

    Raises:
        StaleWriter: The app has an experiment of that name, or one that is running.
        StoreError: The store cannot be used.
    """
    await _check_free(store, app, experiment.name)
    begun = ExperimentRecord(experiment=experiment, started_at=now, started_by=actor)
    act = Act(actor, "experiment.started", details={"experiment": experiment.name})
    stored = await store.replace(app, begun, act=act)
    if stored is None:
        raise _taken(experiment.name)
    # Others may have been started at the same time. One stays: that of the configuration, or the first.
    running = [each for each in await store.all(app) if each.state == "running"]
    stays = next((each for each in running if not each.started_by), None) or serving_experiment(running)
    for each in running:
        if each.started_by and stays is not None and each.name != stays.name:
            await stop(store, app, each.name, now, actor=actor)
    if stays is not None and stays.name != experiment.name:
        raise _running(stays.name)
    return stored


async def _check_free(store: Experiments, app: str, name: str) -> None:
    for record in await store.all(app):
        if record.name == name:
            raise _taken(name)
        if record.state == "running":
            raise _running(record.name)


def _taken(name: str) -> StaleWriter:
    return StaleWriter(f"There is an experiment {name!r} already.", fix="Choose another name.")


def _running(name: str) -> StaleWriter:
    return StaleWriter(f"The experiment {name!r} is running.", fix="Stop it, promote an arm, or roll it back first.")


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


async def end_if_worse(store: Experiments, app: str, name: str | None, now: datetime) -> ExperimentRecord | None:
    """Rolls a running experiment back when an arm is surely worse than the control by more than the bound.

    Args:
        store: The store of experiments.
        app: The app.
        name: The experiment; None = the one that was started over the API.
        now: The time.

    Returns:
        The ended experiment; None if it goes on, or another process looked within the last minute.

    Raises:
        StoreError: The store cannot be used.
    """
    records = await store.all(app)
    record = serving_experiment(records) if name is None else next((each for each in records if each.name == name), None)
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
    return await roll_back(store, app, record.name, now, actor=BY_ITSELF, reason=reason)


async def watch_experiment(
    store: Experiments, app: str, name: str | None, now: Callable[[], datetime], *, seconds: float = LOOK_SECONDS
) -> None:
    """Calls `end_if_worse` about once a minute, until it is cancelled. Problems of the store are logged."""
    while True:
        began = now()
        try:
            ended = await end_if_worse(store, app, name, began)
            if ended is not None:
                log.warning("The experiment %r ended by itself: %s", ended.name, ended.reason)
        except StoreError as problem:
            log.warning("The app's experiment cannot be analysed: %s", problem)
        except Exception:
            log.exception("The app's experiment cannot be analysed.")
        # A long analysis is repeated less often, so that it takes at most a twentieth of the time.
        await asyncio.sleep(max(seconds, 20 * (now() - began).total_seconds()))
