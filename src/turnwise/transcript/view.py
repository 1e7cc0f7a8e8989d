"""The reader of a transcript, and its budget."""

from typing import NamedTuple


class View(NamedTuple):
    """The agent run that reads the log: `agent` on `branch` of the invocation."""

    agent: str
    branch: str
    invocation_id: str
    scopes: frozenset[str] | None = None
    """The labels that the reader works on; None means all. An event of another agent is hidden if it has labels, none of
    which is among these or below them (behaviour D7).
    """
    giver: str | None = None
    """The author of the run's opening when the log does not hold it; None for the user or the caller."""
    calls_as_text: bool = False
    """True to show the reader's own calls and results as text, for a model without tools."""


class Budget(NamedTuple):
    """The maximum size of a transcript."""

    tokens: int
    """Tokens, as estimated by `transcript.sizes`."""
    events: int
    """The number of events."""
