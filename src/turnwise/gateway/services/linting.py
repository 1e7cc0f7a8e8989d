"""Weaknesses of the agents that serve, for callers that may read definitions."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.gateway.services.background import CachedResults
from turnwise.gateway.services.session_admission import SessionScope
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
    """Lint's findings."""

    agents: int
    findings: Sequence[Finding]
    """Errors first."""
    by_meaning: bool
    """Whether examples were compared by meaning."""


class Linting:
    """Shows what makes agents hard to tell apart."""

    def __init__(self, runner: Runner, scope: SessionScope, reports: CachedResults[LintReport]) -> None:
        self._runner, self._scope, self._reports = runner, scope, reports

    async def report(self) -> LintReport:
        """Returns the report about the agents that serve now. Raises Forbidden without `definitions:read`."""
        self._scope.require("definitions:read")
        cascade = self._runner.cascade
        version = f"{cascade.tree.version} {cascade.fingerprint}"
        return await self._reports.of(version, lambda: asyncio.to_thread(_report, cascade))


def _report(cascade: Cascade) -> LintReport:
    """Lints the agents of a policy. Examples are compared by meaning only while there are few."""
    tree, meaning, vectors = cascade.tree, cascade.meaning, None
    texts = [legible(text[:PHRASE_CHARACTERS]) for text in texts_of(tree)]
    if meaning is not None and 0 < len(texts) <= MOST_COMPARED:
        vectors = vectors_of(texts, meaning.encoder, cache=None, progress=lambda *_: None)
    found = lint(tree, vectors, default=cascade.spec.default, general=cascade.spec.general)
    return LintReport(len(tree), found, vectors is not None)
