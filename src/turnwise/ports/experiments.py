"""The protocol of a store of experiments, which processes share, and of what their decisions came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from turnwise.facts.experiments import ExperimentRecord
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.audit import Act
from turnwise.ports.decisions import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLabel:
    """A label of a trial's decision."""

    agent: str | None
    """The agent that should have been chosen; None means that no agent should have been."""
    source: str
    picked: str | None
    """How the decision was picked for labelling."""
    weight: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One decision for the analysis of an experiment or of a shadow."""

    key: SessionKey
    sequence: int
    arm: str | None
    """None for a decision outside of the experiment."""
    agent: str
    outcome: str
    state: str | None
    """The state of the invocation that the decision began; None if it continued one."""
    fingerprint: str
    tree_version: str
    at: datetime
    labels: tuple[TrialLabel, ...] = ()
    """The heaviest first."""
    shadow: Selection | None = None
    """The shadow's decision; None without one."""


class Experiments(Protocol):
    """The experiments of apps. Raises StoreError."""

    async def all(self, app: str) -> Sequence[ExperimentRecord]:
        """Returns an app's experiments, by name."""
        ...

    async def replace(self, app: str, record: ExperimentRecord, *, act: Act | None = None) -> ExperimentRecord | None:
        """Stores an experiment if the stored one has its version, and returns it with the next version; else None.

        Args:
            act: An entry for the audit log. It is stored in the same transaction, so there is no end without an entry.
        """
        ...

    async def trials(self, app: str, experiment: str | None, *, after: str | None = None, limit: int = 1_000) -> Page[Trial]:
        """Returns the decisions of an experiment, or with None all that a shadow decided, too. Oldest first. Raises
        CursorInvalid.

        Args:
            after: The cursor of a page.
        """
        ...

    async def put_shadow(self, key: SessionKey, sequence: int, selection: Selection) -> bool:
        """Stores what a shadow decided beside the decision. Returns False when there is no such decision any more."""
        ...


@runtime_checkable
class ExperimentStore(Protocol):
    """A session store that also stores experiments."""

    @property
    def experiments(self) -> Experiments: ...
