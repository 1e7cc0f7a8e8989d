"""The bodies of the native API for definitions of agents and policies, and for trials of them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.facts.definitions import DefinitionKind, Status
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


class ActivateVersion(Body):
    """Serves this version as a new version."""

    version: int = Field(ge=1, le=2**53)
    note: str = Field(default="", max_length=2_000)


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

    version: int | None = Field(default=None, ge=1, le=2**53, description="None = the newest one.")
    limit: int = Field(default=1_000, ge=1, le=MOST_TRIED, description="How many decisions.")
    labelled: bool = Field(default=False, description="Only labelled decisions.")


class FlipShown(BaseModel):
    """Messages that go from one agent to another."""

    before: str
    after: str
    count: int
    right: int
    wrong: int
    examples: list[str]


class TrialCounts(BaseModel):
    """What changes among some decisions. Shares are from 0 to 1, and null without decisions."""

    decisions: int
    replayed: int
    equal: int
    changed: int
    changed_share: float | None
    labelled: int
    accuracy_before: float | None
    accuracy_after: float | None
    gain: float | None
    flips: list[FlipShown]
    by_method: dict[str, int]
    not_replayed: dict[str, int]


class FindingShown(BaseModel):
    """A weakness of the agents' texts and patterns, as `turnwise lint` finds them."""

    code: str
    severity: Literal["error", "warning", "note"]
    agents: list[str]
    problem: str
    evidence: list[str]
    fix: str


class TrialShown(TrialCounts):
    """The result of a trial. `own_examples` has the decisions about messages that are examples of the version."""

    kind: DefinitionKind
    name: str
    version: int
    fitted: bool
    own_examples: TrialCounts
    errors: int
    warnings: int
    findings: list[FindingShown]
