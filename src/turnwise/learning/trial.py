"""Tries a definition before it counts: which recorded decisions it changes, and whether labels call that right (F5).

The messages are decided twice, by what serves and by what would serve with the definition. A change thus comes from the
definition, and not from other changes since the decisions were recorded. No agent runs.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from turnwise.facts.definitions import AnyDefinition, Definition
from turnwise.learning.lint import lint, texts_of
from turnwise.learning.lint_examples import Finding
from turnwise.learning.replay import COMPARED, Place, ReplayCounter, ReplayResult, Step, no_step, replay
from turnwise.matching.normalize import normalize
from turnwise.ports.stores import SessionStore
from turnwise.selection.cascade import Cascade

FIGURES = (*COMPARED, "errors", "warnings")
"""The figures of a trial that can be gated. Messages that are examples of the definition do not count."""
COMPARED_TEXTS = 20_000
"""Lint compares texts by meaning up to this number; for more it takes too long while users wait."""
_OF_REPLAY = frozenset(FIGURES) | {"flips", "by_method", "not_replayed"}


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial."""

    definition: AnyDefinition
    fitted: bool
    """Whether all decisions were made with fitted heads. False = nearest examples stand in for the changed agents."""
    found: ReplayResult
    """Decisions about all other messages."""
    own: ReplayResult
    """Decisions about messages that are examples of the definition: it is right about them by construction."""
    findings: tuple[Finding, ...]
    """Lint's findings about the agent, and which of them come with the definition."""

    def data(self) -> dict[str, JsonValue]:
        """Returns the trial as plain data. Shares are 0 to 1."""
        findings: list[JsonValue] = [finding.data() for finding in self.findings]
        return {
            "kind": self.definition.what,
            "name": self.definition.name,
            "version": self.definition.version,
            "fitted": self.fitted,
            **_data(self.found),
            "own_examples": _data(self.own),
            "errors": self._count("error"),
            "warnings": self._count("warning"),
            "findings": findings,
        }

    def _count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def _data(found: ReplayResult) -> dict[str, JsonValue]:
    return {key: value for key, value in found.data().items() if key in _OF_REPLAY}


async def try_definition(
    store: SessionStore,
    definition: AnyDefinition,
    now: Cascade,
    then: Cascade,
    wanted: Sequence[Place],
    *,
    fitted: bool,
    step: Step = no_step,
) -> Trial:
    """Decides messages with what serves and with what would serve, and compares.

    Args:
        store: The store with the sessions.
        definition: The definition to try.
        now: The policy that serves. It should be prepared.
        then: The policy that would serve with the definition. It should be prepared.
        wanted: The decisions, as returned by `places`.
        fitted: Whether both have fitted heads.
        step: Called with the number of decisions that are done since the last call.

    Raises:
        StoreError: The store cannot be read.
        EncoderError: A message has no vector.
    """
    own = _examples_of(definition, then)
    counters = {True: ReplayCounter(then), False: ReplayCounter(then)}
    async for each in replay(store, then, wanted, base=now, step=step):
        counters[normalize(each.text, fold=True) in own].add(each)
    findings = await asyncio.to_thread(_findings, definition, now, then)
    return Trial(definition, fitted, counters[False].result(), counters[True].result(), tuple(findings))


def _examples_of(definition: AnyDefinition, then: Cascade) -> frozenset[str]:
    """Returns the examples that the agent would have, without case and surplus space."""
    if not isinstance(definition, Definition):
        return frozenset()
    card = then.tree.card(definition.name)
    texts = [*card.examples, *(each.text for each in card.learned), *(text for skill in card.skills for text in skill.examples)]
    return frozenset(normalize(text, fold=True) for text in texts) - {""}


def _findings(definition: AnyDefinition, now: Cascade, then: Cascade) -> list[Finding]:
    known = {*_linted(now)}
    name = definition.name if isinstance(definition, Definition) else None
    return [finding for finding in _linted(then) if name in finding.agents or finding not in known]


def _linted(cascade: Cascade) -> list[Finding]:
    texts = texts_of(cascade.tree)
    compares = cascade.meaning is not None and 0 < len(texts) <= COMPARED_TEXTS
    vectors = cascade.meaning.vectors(texts) if cascade.meaning is not None and compares else None
    return lint(cascade.tree, vectors, default=cascade.spec.default, general=cascade.spec.general)
