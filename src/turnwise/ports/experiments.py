"""Experiments: which policies are compared, on which units, by which metric, and how far an experiment has come (H7).

The store of experiments, which processes share, also returns the labels of their decisions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from turnwise.facts.fact import Fact
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Page
from turnwise.ports.records import Act

Unit = Literal["session", "user"]
Metric = Literal["uncorrected", "answered", "unclarified"]
"""The metric: a value of 1 or 0 for each decision. Each metric is known without labels, too:

- `uncorrected`: an agent was chosen, and no label that was given in time names another one.
- `answered`: the message did not fail, run into a limit or end in a loop.
- `unclarified`: an agent was chosen without a question to the user.
"""
METRICS: Sequence[Metric] = ("uncorrected", "answered", "unclarified")
ExperimentState = Literal["running", "stopped", "promoted", "rolled_back"]
LONGEST_RIPENING = 30
"""A unit that never pauses is ripe at the latest after this many times `ripe_seconds`."""

MAX_ARMS = 10

ExperimentName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Arm(Fact):
    """One of the policies that an experiment compares."""

    name: ExperimentName
    """The arm's name, unique in the experiment."""
    weight: float = Field(default=1.0, gt=0, le=1_000_000, allow_inf_nan=False)
    """The share of the units, relative to the weights of the other arms."""
    policy: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]+$")] | None = None
    """The name of the arm's policy; None = the app's own policy."""


class Experiment(Fact):
    """An experiment: the arms that it compares, and how. It is fixed when the experiment starts."""

    name: ExperimentName
    """A name that no other experiment of the app had. It is part of each unit's hash, so that experiments divide the units
    independently of each other."""
    unit: Unit = "session"
    """The unit that gets an arm, and counts once in the analysis."""
    arms: tuple[Arm, ...] = Field(min_length=2, max_length=MAX_ARMS)
    """The first arm is the control: all others are compared with it."""
    metric: Metric = "uncorrected"
    """The primary metric, which alone decides."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """The probability that an experiment without a difference ever ends with a winner."""
    ripe_seconds: float = Field(default=86_400.0, gt=0, le=31_536_000, allow_inf_nan=False)
    """How long after its last message a unit is ripe. Labels and messages that come later do not count."""
    least_units: int = Field(default=100, ge=10, le=1_000_000)
    """How many ripe units an arm needs before there are intervals."""
    paired: bool = True
    """Whether, with two arms, the other arm's policy decides each message, too, as its shadow."""
    worse_by: float = Field(default=0.02, ge=0, le=1)
    """The experiment stops by itself when an arm is surely worse than the control by more than this."""

    @field_validator("arms")
    @classmethod
    def _distinct(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        if len({arm.name for arm in arms}) < len(arms):
            raise PydanticCustomError("arms", "Two arms have the same name")
        return arms

    @property
    def control(self) -> Arm:
        """The arm that the others are compared with."""
        return self.arms[0]

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the arms' policies, without the app's own policy."""
        return tuple(dict.fromkeys(arm.policy for arm in self.arms if arm.policy is not None))

    def arm(self, name: str) -> Arm | None:
        """Returns the arm of that name; None when there is none."""
        return next((arm for arm in self.arms if arm.name == name), None)


class ExperimentRecord(Fact):
    """An experiment that has started, as all processes share it. It is changed by compare-and-set."""

    experiment: Experiment
    version: int = Field(default=0, ge=0)
    """Counts the changes; 0 = not stored."""
    state: ExperimentState = "running"
    started_at: datetime
    """Sessions that began earlier are not in the experiment."""
    started_by: str = ""
    """Who started it over the API; empty for an experiment of the configuration, which starts with its first message."""
    ended_at: datetime | None = None
    """Sessions that begin later are not in the experiment; None while it runs."""
    promoted: str | None = None
    """The arm that decides for new sessions after a promotion."""
    reason: str = ""
    """Why the experiment ended."""
    actor: str = ""
    """Who ended it."""
    looked_at: datetime | None = None
    """When a process last checked whether an arm is worse."""

    @property
    def name(self) -> str:
        return self.experiment.name

    def ended(
        self, state: ExperimentState, now: datetime, *, actor: str, reason: str = "", promoted: str | None = None
    ) -> "ExperimentRecord":
        """Returns the record after its end. The time of the first end stays, since no later session is in the experiment."""
        ended_at = self.ended_at or now
        return self.replace(state=state, ended_at=ended_at, actor=actor, reason=reason, promoted=promoted)


def serving_experiment(records: Iterable[ExperimentRecord]) -> ExperimentRecord | None:
    """Returns which of the experiments that were started over the API holds; None without one.

    A running one holds, of several the one that was started first. Else the newest one holds, for the sessions that are in it.
    """
    started = sorted((record for record in records if record.started_by), key=lambda record: (record.started_at, record.name))
    running = [record for record in started if record.state == "running"]
    return next(iter(running or started[-1:]), None)


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
