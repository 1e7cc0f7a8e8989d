"""Reports on the decisions of the traffic, for callers that may label all decisions."""

from collections.abc import Sequence
from datetime import datetime

from turnwise.access.records import record_store_of
from turnwise.gateway.services.background import CachedResults
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.learning.decision_report import DecisionReport, decision_report
from turnwise.learning.evaluate import KeptEvaluation, kept_evaluations
from turnwise.runner import Runner

KEPT_SECONDS = 60.0
"""How long a report is shown again: it reads many decisions, and compares messages by meaning."""


class Reports:
    """Makes reports, one at a time in this process."""

    def __init__(self, runner: Runner, scope: SessionScope, kept: CachedResults[DecisionReport]) -> None:
        self._runner, self._scope, self._kept = runner, scope, kept

    async def evaluations(self, *, limit: int) -> Sequence[KeptEvaluation]:
        """Returns the evaluations that were kept, newest first. Needs `decisions:label`."""
        self._scope.require("decisions:label")
        return await kept_evaluations(record_store_of(self._runner.store).audit, self._runner.app, limit=limit)

    async def decisions(self, *, since: datetime | None, limit: int, sample: int, seed: int) -> DecisionReport:
        """Returns what the newest decisions of all users show. Needs `decisions:label` for all users.

        Args:
            since: Only decisions made at this time or later.
            limit: The most decisions.
            sample: The most texts to group by meaning, and to compare with patterns.
            seed: The seed of the draw of these texts.
        """
        self._scope.users("decisions:label", everybody=True)
        store, app, cascade = self._runner.store, self._runner.app, self._runner.cascade
        return await self._kept.of(
            (cascade.fingerprint, cascade.tree.version, since, limit, sample, seed),
            lambda: decision_report(store, app, cascade, since=since, limit=limit, sample=sample, seed=seed),
        )
