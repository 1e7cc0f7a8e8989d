"""The bodies of the native API for decisions: their labels and review, and reports on many of them."""

from datetime import date, datetime
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


class EstimateShown(BaseModel):
    """The estimated share of right decisions, with an interval that covers 90 %."""

    share: float
    low: float
    high: float
    labels: int
    """The number of labels that it is from."""
    how: Literal["random", "inverse probability"]
    """`random`: from randomly picked labels. `inverse probability`: each label weighs by how probable its pick was."""


class BinShown(BaseModel):
    """Decisions with a confidence between two bounds."""

    low: float
    high: float
    cases: int
    """How many decisions."""
    confidence: float
    """Their mean confidence."""
    accuracy: float
    """The share of them that is right."""


class MisrouteShown(BaseModel):
    """Messages for one agent that another one got, by their labels."""

    expected: str
    """The agent that should have got them; `nobody` for the default agent."""
    chosen: str
    """The agent that got them; or that the user was asked."""
    count: int
    """How many messages."""
    examples: list[str]
    """Some of them, without personal data and keys."""


class RivalsShown(BaseModel):
    """Two agents that take each other's messages, by labels."""

    one: str
    other: str
    to_other: int
    """How many messages of the first one the other one got."""
    to_one: int
    """How many messages of the other one the first one got."""
    agreed: int
    """How many messages of both went to the right one."""


class GroupShown(BaseModel):
    """Messages for nobody that ask for much the same."""

    name: str
    """The words that are typical of them, as an agent's name."""
    count: int
    """How many messages."""
    examples: list[str]
    """Some of them, without personal data and keys."""


class ConflictShown(BaseModel):
    """Two agents whose patterns match the same messages."""

    agents: list[str]
    """The two agents."""
    count: int
    """How many messages."""
    won: dict[str, int]
    """The agents that got them, with how many."""
    examples: list[str]
    """Some of them, without personal data and keys."""


class TallyShown(BaseModel):
    """Decisions of one kind, and how many are right by their labels."""

    decisions: int
    right: int
    wrong: int


class WeekShown(BaseModel):
    """The decisions of a week."""

    start: date
    """Its Monday."""
    decisions: int
    nobody: int
    """How many went to the default agent."""
    asked: int
    """How many asked the user to choose."""
    unsure: int
    """How many had a confidence below 0.6."""
    right: int
    wrong: int


class DecisionReportShown(BaseModel):
    """What the decisions show."""

    decisions: int
    """How many decisions were read."""
    complete: bool
    """False when there are older decisions that were not read."""
    first: datetime | None
    """The time of the oldest one. Null without decisions."""
    last: datetime | None
    """The time of the newest one. Null without decisions."""
    labels: int
    """How many decisions have a label that counts."""
    accuracy: EstimateShown | None
    """The share of right decisions. Null without labels whose pick is known."""
    calibration_error: float | None
    """The distance between stated confidence and accuracy. Null without labels whose pick is known."""
    calibration: list[BinShown]
    """Confidence and accuracy, by confidence."""
    misroutes: list[MisrouteShown]
    """Wrong choices, the most frequent first."""
    rivals: list[RivalsShown]
    """Agents that take each other's messages, the most confused first."""
    nobody: int
    """How many messages went to the default agent."""
    sampled: int
    """How many of these were grouped."""
    groups: list[GroupShown]
    """Out-of-scope messages grouped by meaning, the largest group first."""
    compared: int
    """How many messages were compared with patterns."""
    conflicts: list[ConflictShown]
    """Conflicts of patterns, the most frequent first."""
    by_method: dict[str, TallyShown]
    """The decisions by method, the most frequent first."""
    by_confidence: list[TallyShown]
    """The decisions by tenth of confidence, the lowest first."""
    weeks: list[WeekShown]
    """The decisions by week, the oldest first."""


class ConfusedShown(BaseModel):
    """Cases for one agent that went to another one. Null: nobody, so the default agent."""

    expected: str | None
    """The right agent."""
    chosen: str | None
    """The chosen agent."""
    count: int
    """How many cases."""


class EvaluationShown(BaseModel):
    """The figures of an evaluation. A figure is null if no case tells it."""

    id: str
    """Increases with time."""
    at: datetime
    actor: str
    """Who evaluated."""
    policy: str
    """The policy's name."""
    fingerprint: str
    """The policy's fingerprint."""
    agents: int
    """How many agents there were, without the default one."""
    examples: int
    """How many examples they had."""
    files: list[str]
    """The names of the files of cases."""
    cases: int
    """How many messages have a right agent."""
    accuracy: float | None
    """The share that went to the right agent."""
    in_scope_accuracy: float | None
    """The share of the messages for an agent whose best-scored agent is the right one."""
    switch_accuracy: float | None
    """The share that is right where the right agent changes."""
    stay_accuracy: float | None
    """The share that is right where the right agent stays."""
    out_of_scope_f1: float | None
    """F1 of the decisions that a message is for nobody."""
    ece: float | None
    """The expected calibration error."""
    confusions: list[ConfusedShown]
    """The most frequent confusions, at most 20."""


class EvaluationList(BaseModel):
    evaluations: list[EvaluationShown]
    """The evaluations, newest first."""
