"""The bodies of the native API for definitions of agents and policies, and for examining them: trials, plans of flows, lint."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.ports.definitions import DefinitionKind, Status
from turnwise.wire.messages import Body

MOST_TRIED = 5_000
"""How many decisions a request may try."""


class DefinitionShown(BaseModel):
    """One version of a definition. `content` has what its author wrote."""

    kind: DefinitionKind
    name: str
    version: int
    status: Status
    revision: int
    author: str
    created_at: datetime | None
    note: str
    content: dict[str, JsonValue]
    unknown_fields: list[str] = Field(
        default=[], description="Fields that a newer release wrote. This release does not serve the version."
    )


class DefinitionPage(BaseModel):
    definitions: list[DefinitionShown]
    next: str | None = None


class DefinitionChangeShown(BaseModel):
    """An entry of the audit log. `values` has before and after of the fields that decide about access."""

    revision: int
    kind: DefinitionKind
    name: str
    before: int
    after: int
    author: str
    created_at: datetime
    note: str
    fields: list[str]
    values: dict[str, list[JsonValue]]


class DefinitionChangePage(BaseModel):
    changes: list[DefinitionChangeShown]
    next: str | None = None


_Bounds = Annotated[
    dict[Annotated[str, Field(max_length=40)], Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=20)
]


class ActivateVersion(Body):
    """Serves this version as a new version. With `min` or `max` it is tried before, on recorded decisions."""

    version: int = Field(ge=1, le=2**53)
    note: str = Field(default="", max_length=2_000)
    min: _Bounds = {}
    """The lowest values of figures of the trial, such as `gain`. Refused (409) if a figure is lower, or has no value."""
    max: _Bounds = {}
    """The highest values of figures of the trial, such as `changed_share`."""
    limit: int = Field(default=1_000, ge=1, le=MOST_TRIED)
    """How many decisions the trial takes, the newest ones."""


class RollBackVersion(Body):
    """Serves an earlier version again, as a new version."""

    version: int | None = Field(default=None, ge=1, le=2**53, description="None = the version that served before.")
    note: str = Field(default="", max_length=2_000)


class AddExample(Body):
    """One more example of an agent."""

    text: str = Field(min_length=1, max_length=2_000)


class AddPattern(Body):
    """One more pattern of an agent."""

    regex: str = Field(min_length=1, max_length=10_000)
    confidence: float = Field(default=0.8, ge=0, le=1)
    label: str = Field(default="", max_length=300)


class TryVersion(Body):
    """Tries a version on recorded decisions, the newest ones."""

    version: int | None = Field(default=None, ge=1, le=2**53)
    """The version. Null: the newest one."""
    limit: int = Field(default=1_000, ge=1, le=MOST_TRIED)
    """How many decisions are tried."""
    labelled: bool = False
    """Only labelled decisions."""


class FlipShown(BaseModel):
    """Messages that go from one agent to another."""

    before: str
    """The agent that gets them now; `(asks the user)` for a question."""
    after: str
    """The agent that would get them."""
    count: int
    """How many messages."""
    right: int
    """How many of them would be right, and are wrong now, by their labels."""
    wrong: int
    """How many of them would be wrong, and are right now."""
    examples: list[str]
    """Some of the messages."""


class TrialCounts(BaseModel):
    """A change among some decisions. Shares are from 0 to 1."""

    decisions: int
    """The decisions that were tried."""
    replayed: int
    """Those of them that could be made again."""
    equal: int
    """Those that stay."""
    changed: int
    """Those that change."""
    changed_share: float | None
    """The share of changed decisions. Null without any."""
    labelled: int
    """The decisions that have labels."""
    accuracy_before: float | None
    """The share of labelled decisions that are right now. Null without labels."""
    accuracy_after: float | None
    """The share of labelled decisions that would be right. Null without labels."""
    gain: float | None
    """The difference of both."""
    flips: list[FlipShown]
    """The changes by pair of agents, most frequent first."""
    by_method: dict[str, int]
    """The changes by the method that would decide."""
    not_replayed: dict[str, int]
    """The decisions that cannot be made again, by reason."""


class FindingShown(BaseModel):
    """A weakness of the agents' texts and patterns, as `turnwise lint` finds them."""

    code: str
    """The kind of finding."""
    severity: Literal["error", "warning", "note"]
    """How bad it is."""
    agents: list[str]
    """The agents concerned."""
    problem: str
    """What is found."""
    evidence: list[str]
    """Texts or patterns that show it."""
    fix: str
    """What helps."""


class TrialShown(TrialCounts):
    """The result of a trial."""

    kind: DefinitionKind
    """What was tried."""
    name: str
    """Its name."""
    version: int
    """The version that was tried."""
    fitted: bool
    """Whether fitted heads decided. False: nearest examples stood in for the changed agents."""
    own_examples: TrialCounts
    """The decisions about messages that are examples of the version: right by construction, and not counted above."""
    errors: int
    """The findings that are errors."""
    warnings: int
    """The findings that are warnings."""
    findings: list[FindingShown]
    """What lint finds about the agent, and what it finds only with the version."""


class PlannedTaskShown(BaseModel):
    """A task of a flow. `needs` must be complete before it; `agents` may do it."""

    name: str
    objective: str
    agents: list[str]
    needs: list[str]
    parent: str | None = None
    run_if: Literal["success", "always"]
    interactive: bool


class FlowPlanShown(BaseModel):
    """The plan of a flow. `tasks` is null for a flow that plans each run; `drawing` is null if there is nothing to draw."""

    flow: str
    tasks: list[PlannedTaskShown] | None
    drawing: str | None


class LintFindingShown(BaseModel):
    """A weakness of agents' cards."""

    code: str
    severity: Literal["error", "warning", "note"]
    agents: list[str]
    problem: str
    evidence: list[str]
    fix: str


class LintReportShown(BaseModel):
    """Lint's findings in the agents that serve, errors first. `by_meaning` tells whether examples were compared by meaning."""

    agents: int
    findings: list[LintFindingShown]
    by_meaning: bool
