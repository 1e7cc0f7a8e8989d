"""The bodies of the native API for labels of decisions: labels, ratings, claims, and changes."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from turnwise.facts.labels import NOTE_CHARACTERS, Label
from turnwise.wire.messages import MOST_CHARACTERS, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT, Body


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
