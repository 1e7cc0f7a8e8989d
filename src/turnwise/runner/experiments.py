"""The experiment of an app: which policy decides a session's next message (behaviour H7)."""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.errors import StoreError
from turnwise.facts.experiments import Experiment, ExperimentRecord, serving_experiment
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session
from turnwise.ports.experiments import Experiments
from turnwise.runner.agent_sets import AgentSet
from turnwise.selection.alternatives import Assignment, assign
from turnwise.selection.cascade import Cascade

FRESH_SECONDS = 1.0
"""How long what was read of the experiment holds. A rollback reaches all processes within this time."""

log = logging.getLogger("turnwise.runner")


class DecidingPolicy(NamedTuple):
    """The policy that decides a message, and the one that decides beside it."""

    cascade: Cascade
    assigned: Assignment | None
    """None when no experiment concerns the message."""
    shadow: Cascade | None

    def stamped(self, selection: Selection) -> Selection:
        """Returns the selection with the experiment and the arm that it counts for."""
        if self.assigned is None or self.assigned.experiment is None:
            return selection
        return selection.replace_valid(experiment=self.assigned.experiment, arm=self.assigned.arm)


def deciding_policy(agent_set: AgentSet, assigned: Assignment | None) -> DecidingPolicy:
    """Returns the policy of the assignment. The served one decides, uncounted, when the set lacks that policy.

    There is no shadow when the set lacks the shadow's policy.
    """
    if assigned is not None and assigned.policy is not None and assigned.policy not in agent_set.policies:
        assigned = None
    cascade = agent_set.policy(assigned.policy if assigned is not None else None)
    if assigned is not None and assigned.shadow is not None:
        shadow = assigned.shadow.policy
        known = shadow is None or shadow in agent_set.policies
        return DecidingPolicy(cascade, assigned, agent_set.policy(shadow) if known else None)
    named = cascade.spec.shadow
    return DecidingPolicy(cascade, assigned, agent_set.policies.get(named) if named is not None else None)


class ExperimentAssignments:
    """Assigns sessions to the arms of the app's experiment. Safe to use from several event loops.

    The first message that a process decides starts the experiment of the configuration. Without one, the experiment that
    was started over the API holds: the running one, else the newest. While the store cannot be read, what was read last holds;
    a process that never read it decides with the app's own policy.

    Args:
        store: The store of experiments; None if the session store has none.
        app: The app's name.
        experiment: The experiment of the configuration; None = there is none.
        now: Returns the time.
        can_compare: Returns whether the app has other policies. Without any, none that was started over the API is read.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Experiments | None,
        app: str,
        experiment: Experiment | None,
        now: Callable[[], datetime],
        can_compare: Callable[[], bool] = lambda: True,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self._app, self.experiment, self.now, self._clock = store, app, experiment, now, clock
        self._can_compare = can_compare
        self._record: ExperimentRecord | None = None
        self._read_at: float | None = None
        self._is_away = self._was_warned = False

    @property
    def configured(self) -> str | None:
        """The name of the configuration's experiment; None without one."""
        return None if self.experiment is None else self.experiment.name

    async def of(self, session: Session, *, starts: bool = True) -> Assignment | None:
        """Returns the policy for the session's next message; None = no experiment concerns it.

        Args:
            session: The session.
            starts: True if this call may start an experiment that has not started yet.
        """
        if self.store is None or (self.experiment is None and not self._can_compare()):
            return None
        record = await self._current(self.store, session, starts=starts and self.experiment is not None)
        return None if record is None else assign(record, session.key, session.created_at)

    async def _current(self, store: Experiments, session: Session, *, starts: bool) -> ExperimentRecord | None:
        """Returns the experiment's record, read again after FRESH_SECONDS. When the store fails, the last one read."""
        now = self._clock()
        if self._read_at is not None and now - self._read_at < FRESH_SECONDS and (self._record is not None or not starts):
            return self._record
        self._read_at = now  # concurrent messages decide by what was read before
        try:
            self._record = await self._read(store, session, starts=starts)
            self._is_away = False
        except StoreError as problem:
            if not self._is_away:
                log.warning("The app's experiment cannot be read: %s", problem)
            self._is_away = True
        return self._record

    async def _read(self, store: Experiments, session: Session, *, starts: bool) -> ExperimentRecord | None:
        """Returns the experiment's record from the store. If there is none and `starts`, stores it with its start."""
        wanted = self.experiment
        if wanted is None:
            return serving_experiment(await store.all(self._app))
        found = next((each for each in await store.all(self._app) if each.name == wanted.name), None)
        if found is None and starts:
            # A new session that starts the experiment is in it.
            started_at = self.now() if session.last_sequence else session.created_at
            begun = ExperimentRecord(experiment=wanted, started_at=started_at)
            found = await store.replace(self._app, begun)
            if found is None:  # another process was faster
                found = next((each for each in await store.all(self._app) if each.name == wanted.name), None)
        if found is not None and found.experiment != wanted and not self._was_warned:
            self._was_warned = True
            log.warning(
                "The experiment %r began with other settings, which hold until it ends. Give the changed one a new name.",
                wanted.name,
            )
        return found
