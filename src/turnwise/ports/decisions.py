"""Decisions of a session store, and their labels: what people and programs think of a decision. Also the pages of all lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field

from turnwise.facts.fact import Fact
from turnwise.facts.selections import Selection
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


T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    next: str | None
    """The cursor of the next page; None at the end."""


class Decision(NamedTuple):
    """A selection in the search across sessions."""

    key: SessionKey
    sequence: int
    invocation_id: str
    text: str
    selection: Selection
    created_at: datetime
    label: str | None = None
    """The agent that should have been chosen: by the operators' newest label, else by the heaviest (`Labels`).

    None means unlabelled, or that no agent should have been chosen.
    """
    shadow: Selection | None = None
    """The shadow policy's decision, for comparison only; None without one."""
    labels: Sequence[Label] = ()
    """The labels, in the order of `Labels.of`, if the search was asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """The decisions to search: those that match every field. None and "" match all."""

    agent: str | None = None
    method: str | None = None
    since: datetime | None = None
    """Only decisions made at this time or later. A time without a zone is UTC."""
    until: datetime | None = None
    """Only decisions made before this time."""
    min_confidence: float | None = None
    max_confidence: float | None = None
    """The highest confidence, included."""
    outcome: str | None = None
    """`chosen` or `clarify`."""
    label: str | None = None
    """Only decisions with this label."""
    labelled: bool | None = None
    """True for labelled decisions, False for unlabelled ones."""
    contradicted: bool = False
    """Only decisions whose label is another agent than the selected one."""
    policy: str | None = None
    """A fingerprint, or the name of a policy. A name finds the stored versions of the policy (`put_version`)."""
    words: str = ""
    """Words that the beginning of the message contains, in any order and case. A text without any word matches nothing."""


ALL_DECISIONS = DecisionFilter()

COUNTED = 10_000
"""The most decisions that are counted: the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCell:
    """The number of decisions that are alike."""

    agent: str
    method: str
    outcome: str
    tenth: int
    """The confidence in whole tenths, 0 to 9."""
    label: str | None
    policy: str
    """The policy's fingerprint."""
    count: int


@dataclass(frozen=True, slots=True)
class TimeCount:
    """The number of decisions in a part of time."""

    start: datetime
    count: int
    clarified: int
    """How many of them asked the user to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """The numbers of the newest decisions."""

    cells: Sequence[DecisionCell]
    times: Sequence[TimeCount]
    """Oldest first; a part without decisions is left out."""
    seconds: int
    """The width of the parts of time."""
    examined: int
    """How many decisions were examined."""
    complete: bool
    """False if there are older decisions that were not examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSession:
    """A session with its newest decision."""

    key: SessionKey
    title: str
    """The beginning of the session's first message."""
    text: str
    """The beginning of the message that was decided last."""
    agent: str
    """The agent that was selected last."""
    state: str | None
    """The state of the newest invocation: `running`, `waiting`, or the reason of its end."""
    changed_at: datetime
    """The time of the newest decision."""


VersionKind = Literal["policy", "tree"]


class Version(NamedTuple):
    """A policy or an agent tree that decisions refer to."""

    kind: VersionKind
    version: str
    """The fingerprint of the policy, or the version of the tree."""
    name: str
    body: str
    """Its content as JSON."""
    created_at: datetime


class InvocationInfo(NamedTuple):
    """An invocation in a list."""

    key: SessionKey
    sequence: int
    """The sequence number of the user's message that began the invocation, which also holds its decision."""
    event_id: str
    """The id of that event."""
    invocation_id: str
    state: str | None
    """`running`, `waiting`, or the reason of its end (`EndReason`). None means that an older version wrote it; the log has
    the state.
    """
    changed_at: datetime
    """The time of the last change of state; without a state, when it began."""


class Decisions(Protocol):
    """The selections of an app, searchable across sessions, with their labels."""

    async def search(
        self,
        app: str,
        *,
        user: str | None = None,
        key: SessionKey | None = None,
        filter: DecisionFilter = ALL_DECISIONS,
        after: str | None = None,
        limit: int = 50,
        oldest_first: bool = False,
        brief: bool = False,
        labels: bool = False,
    ) -> Page[Decision]:
        """Returns decisions, newest first, of all users and sessions or of one. Raises CursorInvalid.

        The work of one page is bounded. A page may therefore have fewer than `limit` decisions, or none, although it has
        a next one. A fork's inherited decisions are listed only for the fork's own key.

        Args:
            after: The cursor of a page with the same filter and order.
            oldest_first: The other order: the end of a long list costs what its beginning does.
            brief: Leaves out the records, which cost the most to read: a selection then has only the agent, method,
                confidence, outcome and fingerprint.
            labels: Adds all labels of each decision.
        """
        ...

    async def count(self, app: str, *, user: str | None = None, filter: DecisionFilter = ALL_DECISIONS) -> DecisionCounts:
        """Returns the numbers of the newest decisions that match the filter, of all users or of one.

        Examines at most `COUNTED` decisions of the agent, the method or the app. Ignores the filter's words.
        """
        ...

    async def recent_sessions(
        self,
        app: str,
        *,
        user: str | None = None,
        words: str = "",
        state: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[RecentSession]:
        """Returns sessions, the most recently decided first. Sessions without a decision are not listed. Raises CursorInvalid.

        The work of one page is bounded, as for `search`. With words, a session comes again on a later page when an older
        message has the words, too.

        Args:
            words: Only sessions in which a message has all the words.
            state: Only sessions whose newest invocation has this state.
            after: The cursor of a page.
        """
        ...

    async def find(self, key: SessionKey, sequence: int) -> Decision | None:
        """Returns the decision recorded at that sequence number; None when there is none."""
        ...

    async def label(self, key: SessionKey, sequence: int, label: str | None, *, actor: str = "") -> None:
        """Stores an operator's label: the agent that should have been chosen. `Labels` stores all other labels.

        None removes the labels of all operators. Raises InvocationMissing when there is no decision.

        Args:
            actor: The label's author, such as a credential's id.
        """
        ...

    async def put_version(self, app: str, version: Version) -> None:
        """Stores a policy or a tree. Does nothing if it is stored already."""
        ...

    async def version(self, app: str, kind: VersionKind, version: str) -> Version | None:
        """Returns a stored policy or tree; None when it is not stored."""
        ...

    async def invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[InvocationInfo]:
        """Returns a user's invocations, or those of one session, the most recently changed first. Raises CursorInvalid.

        Each has its state as of its last append. Rewound invocations, and those copied by a fork, are not listed.

        Args:
            states: Only these states, and unknown ones; `limit:` matches any limit.
            since: Only invocations that changed at this time or later.
            after: The cursor of a page.
        """
        ...

    async def count_invocations(
        self,
        app: str,
        *,
        user: str,
        key: SessionKey | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
    ) -> int:
        """Returns the number of entries on all pages of `invocations`."""
        ...


class Labels(Protocol):
    """Labels of decisions. A decision has at most one label for each source and author. Raises StoreError.

    Labels outlive the text and the record of their decision. Deleting the session or the user deletes them.
    """

    async def put(self, key: SessionKey, sequence: int, label: Label, *, actor: str) -> None:
        """Stores a label, replacing that of the same source and author, and records the change.

        Storing the same label again changes nothing. Raises InvocationMissing when there is no decision.
        """
        ...

    async def remove(self, key: SessionKey, sequence: int, source: str, author: str, *, actor: str) -> bool:
        """Removes a label and records the change. Returns whether it existed."""
        ...

    async def of(self, key: SessionKey, sequence: int) -> Sequence[LabelledDecision]:
        """Returns the labels of a decision: the operators' newest first, then the others, the heaviest first."""
        ...

    async def search(
        self, app: str, *, user: str | None = None, source: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[LabelledDecision]:
        """Returns labels, the least recently changed first. Raises CursorInvalid.

        Args:
            after: The cursor of a page.
        """
        ...

    async def changes(self, key: SessionKey, sequence: int) -> Sequence[LabelChange]:
        """Returns all changes of a decision's labels, oldest first.

        The twentieth and later changes by one author are one change, unless the author is an operator.
        """
        ...

    async def claim(self, key: SessionKey, sequence: int, reviewer: str, *, seconds: float) -> Claim:
        """Claims the review of a decision for a time, unless another reviewer has it. Returns the claim that holds.

        A reviewer who claims again extends the claim. Raises InvocationMissing when there is no decision.
        """
        ...

    async def unclaim(self, key: SessionKey, sequence: int, reviewer: str) -> None:
        """Releases the reviewer's claim. Idempotent."""
        ...
