"""Experiments and shadows, for callers that may read or change policies."""

from collections.abc import Sequence

from turnwise.facts.errors import NothingHere, RequestInvalid, StaleWriter
from turnwise.facts.experiments import Experiment, ExperimentRecord
from turnwise.facts.ids import Issuer
from turnwise.gateway.services.background import BackgroundTasks, CachedResults
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.learning.experiment_statistics import Paired
from turnwise.learning.experiments import (
    ExperimentResult,
    find_experiment,
    promote,
    read_result,
    read_shadow,
    roll_back,
    start,
    stop,
)
from turnwise.ports.experiments import Experiments as Store, ExperimentStore
from turnwise.runner import Runner

KEPT_SECONDS = 15.0
"""How long an analysis is shown again: it reads all decisions of its experiment."""


class Analyses:
    """Keeps the newest analyses for a while, so that many readers cost no more than one.

    Args:
        tasks: The tasks that make them.
    """

    def __init__(self, tasks: BackgroundTasks) -> None:
        self.experiments = CachedResults[ExperimentResult](tasks, seconds=KEPT_SECONDS, most=8)
        self.shadows = CachedResults[Paired](tasks, seconds=KEPT_SECONDS)


class Experiments:
    """Shows, starts and ends experiments. Reading needs `definitions:read`, the rest `definitions:write`.

    All methods raise Forbidden and the store's errors, and NothingHere if the store keeps no experiments.
    """

    def __init__(self, runner: Runner, scope: SessionScope, issuer: Issuer, analyses: Analyses) -> None:
        self._runner, self._scope, self._issuer, self._analyses = runner, scope, issuer, analyses

    async def list(self) -> tuple[Sequence[ExperimentRecord], str | None]:
        """Returns the experiments that have started, and the name of the configured one."""
        self._scope.require("definitions:read")
        return await self._store.all(self._runner.app), self._runner.experiments.configured

    async def show(self, name: str) -> ExperimentResult:
        """Returns the analysis of an experiment. Raises NothingHere."""
        self._scope.require("definitions:read")
        record = await find_experiment(self._store, self._runner.app, name)
        store, app = self._store, self._runner.app
        return await self._analyses.experiments.of(
            (name, record.state), lambda: read_result(store, app, record, self._issuer.now())
        )

    async def shadow(self) -> Paired:
        """Compares the served policy with its shadow, outside of experiments."""
        self._scope.require("definitions:read")
        store, app = self._store, self._runner.app
        return await self._analyses.shadows.of(app, lambda: read_shadow(store, app))

    async def start(self, experiment: Experiment) -> ExperimentRecord:
        """Starts an experiment.

        Raises:
            RequestInvalid: An arm names a policy that is none of the app's `policies`, or no arm names one.
            StaleWriter: The name is taken, another experiment is running, or the configuration has one.
        """
        self._scope.require("definitions:write")
        store, configured = self._store, self._runner.experiments.configured
        if configured is not None:
            raise StaleWriter(
                f"The configuration has the experiment {configured!r}.", fix="Take it out of turnwise.yaml, and restart."
            )
        self._check_policies(experiment)
        return await start(store, self._runner.app, experiment, self._issuer.now(), actor=self._scope.caller.id)

    def _check_policies(self, experiment: Experiment) -> None:
        known = self._runner.sets.current.policies
        names = f"Policies: {', '.join(sorted(known))}." if known else "Add it to `policies` in turnwise.yaml."
        for place, arm in enumerate(experiment.arms):
            if arm.policy is not None and arm.policy not in known:
                where = ("body", "arms", place, "policy")
                raise RequestInvalid(f"The app has no policy {arm.policy!r}.", fix=names, where=where)
        if not experiment.policies:
            raise RequestInvalid("No arm names a policy.", fix=names, where=("body", "arms"))

    async def promote(self, name: str, arm: str) -> ExperimentRecord:
        """Lets an arm decide for new sessions. Raises NothingHere and StaleWriter."""
        self._scope.require("definitions:write")
        return await promote(self._store, self._runner.app, name, arm, self._issuer.now(), actor=self._scope.caller.id)

    async def roll_back(self, name: str, reason: str) -> ExperimentRecord:
        """Lets the control decide everywhere at once. Raises NothingHere and StaleWriter."""
        self._scope.require("definitions:write")
        now, actor = self._issuer.now(), self._scope.caller.id
        return await roll_back(self._store, self._runner.app, name, now, actor=actor, reason=reason)

    async def stop(self, name: str) -> ExperimentRecord:
        """Takes no more sessions into the experiment. Raises NothingHere and StaleWriter."""
        self._scope.require("definitions:write")
        return await stop(self._store, self._runner.app, name, self._issuer.now(), actor=self._scope.caller.id)

    @property
    def _store(self) -> Store:
        store = self._runner.store
        if not isinstance(store, ExperimentStore):
            raise NothingHere("The session store keeps no experiments.", fix="Use a SQL database as `store`.")
        return store.experiments
