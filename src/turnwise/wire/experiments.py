"""The bodies of the native API for experiments and shadows."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from turnwise.ports.experiments import MAX_ARMS, Arm, Experiment, ExperimentState, Metric, Unit
from turnwise.wire.messages import PLAIN, Body


class ArmShown(BaseModel):
    """An arm as it is configured."""

    name: str
    weight: float
    """Its share of the units, relative to the weights of the other arms."""
    policy: str | None
    """The name of its policy. Null: the app's own."""


class ExperimentRow(BaseModel):
    """An experiment in a list."""

    name: str
    state: ExperimentState
    """`promoted`: an arm decides for new sessions. `rolled_back`: the control decides in all sessions."""
    unit: Unit
    """What gets an arm, and counts once."""
    metric: Metric
    """The primary metric: it alone decides."""
    arms: list[ArmShown]
    """The arms. The first one is the control."""
    started_at: datetime
    started_by: str
    """Who started it with a request. Empty for an experiment of the configuration."""
    ended_at: datetime | None
    """When it ended. Null while it runs."""
    promoted: str | None
    """The arm that decides for new sessions. Null without one."""
    reason: str
    """Why it ended."""
    actor: str
    """Who ended it."""


class ExperimentList(BaseModel):
    experiments: list[ExperimentRow]
    """The experiments that have started, by name."""
    configured: str | None
    """The experiment of the configuration. It starts with its first message. Null without one."""


class ArmResultShown(BaseModel):
    """The result of an arm."""

    arm: str
    policy: str | None
    """The name of its policy. Null: the app's own."""
    weight: float
    """Its share of the units, relative to the weights of the other arms."""
    units: int
    """How many units have the arm."""
    ripe: int
    """How many of them count."""
    decisions: int
    """The decisions of the units that count."""
    means: dict[Metric, float | None]
    """The mean of the units by metric. Null without a unit that counts."""
    fingerprints: list[str]
    """The policies that decided for it. Several mean that the policy, or what is fitted to the agents, changed."""


class PointShown(BaseModel):
    """An interval at one look."""

    units: int
    """How many units of both arms counted."""
    estimate: float
    low: float
    high: float


class ComparisonShown(BaseModel):
    """An arm beside the control, by one metric. Values are differences of means, from -1 to 1."""

    arm: str
    metric: Metric
    alpha: float
    """The probability that the true difference is ever outside of the interval."""
    estimate: float | None
    """The difference. Null while an arm has too few units that count."""
    low: float
    """The lower end of the interval."""
    high: float
    """The upper end of the interval."""
    better_after: int | None
    """After how many units the arm was surely better. Null: it was not."""
    worse_after: int | None
    """After how many units the arm was surely worse. Null: it was not."""
    harmful_after: int | None
    """After how many units it was surely worse by more than the bound. Null: it was not."""
    over_time: list[PointShown]
    """The intervals of the primary metric, oldest first."""


class PairedShown(BaseModel):
    """Two policies on the same messages."""

    first: str
    """The control, or the policy that serves."""
    second: str
    """The other arm, or the shadow."""
    decisions: int
    """The messages that both decided."""
    differ: int
    """Those that they decide differently."""
    differ_share: float | None
    """The share of those. Null without messages."""
    labelled: int
    """Those that they decide differently and that have a label that counts."""
    first_units: int
    """In how many units the first one was right more often."""
    second_units: int
    """In how many units the second one was right more often."""
    p: float
    """The p-value, valid at every look, that both are right equally often."""
    better: str | None
    """The better one. Null while it is not sure."""


class BreakShown(BaseModel):
    """A change of the agents' definitions during the experiment."""

    at: datetime
    tree_version: str


class ExperimentShown(BaseModel):
    """The analysis of an experiment. It holds at every look."""

    name: str
    state: ExperimentState
    """`promoted`: an arm decides for new sessions. `rolled_back`: the control decides in all sessions."""
    unit: Unit
    """What gets an arm, and counts once."""
    metric: Metric
    """The primary metric: it alone decides."""
    started_at: datetime
    ended_at: datetime | None
    """When it ended. Null while it runs."""
    promoted: str | None
    """The arm that decides for new sessions. Null without one."""
    reason: str
    """Why it ended."""
    paired: PairedShown | None
    """Both arms on the same messages. Null without such messages."""
    arms: list[ArmResultShown]
    """The arms. The first one is the control."""
    comparisons: list[ComparisonShown]
    """The other arms beside the control; those by the primary metric first."""
    winner: str | None
    """The arm that is surely the best one by the primary metric. Null while it is not sure."""
    harmful: list[str]
    """The arms that are surely worse than the control by more than the bound."""
    ratio_p: float
    """The p-value, valid at every look, that the units divide among the arms as the weights say."""
    broken: bool
    """Whether they surely do not. Then no comparison counts."""
    breaks: list[BreakShown]
    """Changes of the agents' definitions, oldest first."""


_BODY = ConfigDict(extra="forbid", strict=False)
"""A fact is strict in Python; JSON has lists for tuples."""


class StartArm(Arm):
    """An arm of a new experiment."""

    model_config = _BODY


class StartExperiment(Experiment):
    """A new experiment. It is fixed from its start on."""

    model_config = _BODY
    arms: tuple[StartArm, ...] = Field(min_length=2, max_length=MAX_ARMS)


class PromoteArm(Body):
    """Lets this arm decide for new sessions."""

    arm: str = Field(min_length=1, max_length=64, pattern=PLAIN)


class RollBackExperiment(Body):
    """Lets the control decide everywhere."""

    reason: str = Field(default="", max_length=2_000, pattern=r"^[^\x00]*$")
