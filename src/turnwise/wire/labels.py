"""The bodies of the native API for labels of decisions: labels, ratings, claims, and changes."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from turnwise.ports.decisions import NOTE_CHARACTERS, Label
from turnwise.wire.messages import MOST_CHARACTERS, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT, Body
from turnwise.wire.resources import DecisionShown


class LabelDecision(Body):
    """Labels a decision with the agent that should have been chosen. Null removes the label."""

    agent: str | None = Field(max_length=64, pattern=PLAIN)


class GiveFeedback(Body):
    """A user's rating of a decision: `up` if the right agent answered, `down` if not; null takes the rating back. With `down`,
    `agent` may name the right one.
    """

    rating: Literal["up", "down"] | None
    agent: str | None = Field(default=None, max_length=64, pattern=PLAIN)


class LabelledPlace(Body):
    """A decision. `user` is the caller if omitted."""

    user: str | None = Field(default=None, min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)
    session_id: str = Field(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT)
    sequence: int = Field(ge=1, le=MOST_SEQUENCE)
    picked: str | None = Field(default=None, min_length=1, max_length=64, pattern=PLAIN)
    """How the review queue picked it. Null: it was not in the queue."""
    probability: float | None = Field(default=None, gt=0, le=1)
    """The probability with which the queue drew it."""


class LabelDecisions(Body):
    """Labels decisions with the agent that should have been chosen. Null removes the labels."""

    decisions: list[LabelledPlace] = Field(min_length=1, max_length=MOST_ROWS)
    agent: str | None = Field(max_length=64, pattern=PLAIN)
    note: str = Field(default="", max_length=NOTE_CHARACTERS, pattern=r"^[^\x00]*$")
    unsure: bool = False


class LabelShown(BaseModel):
    """A label. `source` is the kind of author: `operator`, `user`, `signal`, `model`, or a name of the app."""

    source: str
    author: str
    agent: str | None
    unsure: bool
    note: str
    at: datetime | None
    weight: float
    """How much it counts against labels of other authors."""
    picked: str | None
    """How the decision was picked for labelling: `random`, `doubt`, `complaint`, `signal`, or a name of the app."""
    probability: float | None
    """The probability with which it was picked. Null: it is not known."""

    @classmethod
    def of(cls, label: Label) -> "LabelShown":
        return cls(**{name: getattr(label, name) for name in cls.model_fields})


class LabelChangeShown(BaseModel):
    """A change of a label. `before` is null for a new one, `after` for a removed one."""

    at: datetime
    actor: str
    before: LabelShown | None
    after: LabelShown | None


class DecisionLabels(BaseModel):
    labels: list[LabelShown]
    changes: list[LabelChangeShown]


class ClaimShown(BaseModel):
    """The claim of a decision's review. `mine` says whether it is the caller's."""

    reviewer: str
    seconds: float
    mine: bool


class QueuedDecision(BaseModel):
    """A decision to review. Hand `picked` and `probability` over with its label."""

    decision: DecisionShown
    """The decision, without the verdicts of the selectors."""
    picked: Literal["complaint", "doubt", "random"]
    """`complaint`: a user or a signal contradicts it. `doubt`: it is not sure. `random`: it was drawn."""
    doubt: float
    """The weight of what contradicts it, or how little sure it is; from 0 to 1."""
    probability: float | None
    """The probability with which it was drawn. Null unless it was drawn."""


class ReviewQueue(BaseModel):
    queue: list[QueuedDecision]
    """The decisions, in the order of review."""


class SignalShown(BaseModel):
    """The events that followed a decision in its conversation."""

    signal: str
    says: Literal["right", "wrong", "another"]
    """Whether the chosen agent is right, may be wrong, or another one is right."""
    agent: str | None
    """The agent that it speaks for. Null: it only speaks against the chosen one."""
    weight: float
    """How much it counts, from 0 to 1."""
    about: str
    """What happened."""


class DecisionSignals(BaseModel):
    signals: list[SignalShown]
    """The signals, in the order of the conversation."""
