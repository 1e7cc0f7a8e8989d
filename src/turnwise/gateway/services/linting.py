"""Weaknesses of the agents that serve, for callers that may read definitions."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.gateway.services.background import BackgroundTasks
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.learning.lint import lint, texts_of
from turnwise.learning.lint_examples import Finding
from turnwise.matching.normalize import legible
from turnwise.runner import Runner
from turnwise.selection.cascade import Cascade
from turnwise.selection.phrases import PHRASE_CHARACTERS
from turnwise.selection.vectors import vectors_of

MOST_COMPARED = 5_000
"""Texts of the largest set of agents that is compared by meaning. `turnwise lint` compares larger ones."""


class LintReport(NamedTuple):
    """What lint found."""

    agents: int
    findings: Sequence[Finding]
    """Errors first."""
    by_meaning: bool
    """Whether examples were compared by meaning."""


class LintReports:
    """Keeps the newest report, so that a set of agents is read once, however many callers ask.

    Args:
        tasks: The tasks that make reports.
    """

    def __init__(self, tasks: BackgroundTasks) -> None:
        self._lock, self._tasks = asyncio.Lock(), tasks
        self._known: tuple[str, LintReport] | None = None

    async def of(self, cascade: Cascade) -> LintReport:
        """Returns the report about the agents of this cascade. A cancelled caller leaves the work to the next one."""
        # A thread cannot be cancelled. So the lock belongs to a task that lasts as long as its thread.
        return await asyncio.shield(self._tasks.start(self._made(cascade)))

    async def _made(self, cascade: Cascade) -> LintReport:
        version = f"{cascade.tree.version} {cascade.fingerprint}"
        async with self._lock:
            if self._known is None or self._known[0] != version:
                self._known = version, await asyncio.to_thread(_report, cascade)
            return self._known[1]


class Linting:
    """Shows what makes agents hard to tell apart."""

    def __init__(self, runner: Runner, scope: SessionScope, reports: LintReports) -> None:
        self._runner, self._scope, self._reports = runner, scope, reports

    async def report(self) -> LintReport:
        """Returns the report about the agents that serve now. Raises Forbidden without `definitions:read`."""
        self._scope.require("definitions:read")
        return await self._reports.of(self._runner.cascade)


def _report(cascade: Cascade) -> LintReport:
    tree, meaning, vectors = cascade.tree, cascade.meaning, None
    texts = [legible(text[:PHRASE_CHARACTERS]) for text in texts_of(tree)]
    if meaning is not None and 0 < len(texts) <= MOST_COMPARED:
        vectors = vectors_of(texts, meaning.encoder, cache=None, progress=lambda *_: None)
    found = lint(tree, vectors, default=cascade.spec.default, general=cascade.spec.general)
    return LintReport(len(tree), found, vectors is not None)
