"""Labels of decisions: which agent should have been chosen, and who says so."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from turnwise.facts.fact import Fact
from turnwise.facts.sessions import SessionKey

OPERATOR = "operator"
"""The source of labels that a person gave for the operator of the app. They take precedence over all others."""
BY_USER = "user"
"""The source of labels that users gave for their own sessions."""
SIGNAL = "signal"
"""The source of labels that the log of a conversation implies."""
NOTE_CHARACTERS = 4000

Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]


class Label(Fact):
    """One author's label of a decision."""

    source: Name = OPERATOR
    """The kind of author: `operator`, `user`, `signal`, `model`, or a name of the app."""
    author: Annotated[str, Field(max_length=256, pattern=r"^[^\x00]*$")] = ""
    """The author within the source, such as a credential's id."""
    agent: str | None
    """The agent that should have been chosen; None means that no agent should have been chosen."""
    unsure: bool = False
    """Whether the author doubts the label. Without an agent: the choice is wrong, and the author names no better one."""
    note: Annotated[str, Field(max_length=NOTE_CHARACTERS, pattern=r"^[^\x00]*$")] = ""
    """A remark for people. It may quote the user."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """How much the label counts against labels of other authors."""
    picked: Name | None = None
    """How the decision was picked for labelling: `random`, `doubt`, `complaint`, `signal`, or a name of the app."""
    probability: float | None = Field(default=None, gt=0, le=1)
    """The probability with which the decision was picked; None means unknown."""
    at: datetime | None = None
    """When the label was given; None for a label that is not stored yet."""


class LabelledDecision(Fact):
    """A label with the facts of its decision that outlive the decision's text."""

    key: SessionKey
    sequence: int
    invocation_id: str
    agent: str
    """The agent that was chosen."""
    method: str
    confidence: float
    outcome: str
    fingerprint: str
    decided_at: datetime
    label: Label


class LabelChange(Fact):
    """A change of one author's label."""

    source: str
    author: str
    actor: str
    """Who changed the label."""
    at: datetime
    before: Label | None
    """None for a new label."""
    after: Label | None
    """None for a removed label."""


class Claim(Fact):
    """The exclusive right to review a decision."""

    reviewer: str
    seconds: float
    """The seconds until the claim expires."""
